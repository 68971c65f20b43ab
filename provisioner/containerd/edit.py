"""The edit of containerd's `config.toml` that makes the handler `nvidia` work and leaves all else as it was.

Pure: bytes in, bytes or a refusal out, never an exception, whatever the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.containerd import imports as drop_ins
from provisioner.containerd import k3s, record
from provisioner.containerd.cri import DEFAULT_NAME, RUNC, Cri, dotted, table_at
from provisioner.containerd.deletion import delete
from provisioner.containerd.document import Document, at
from provisioner.containerd.faults import load_faults
from provisioner.containerd.handler import (
    AddHandler,
    CgroupDriver,
    Plan,
    SetDefault,
    SetDefaultType,
    SetKey,
    Step,
    Wanted,
    plan,
)
from provisioner.containerd.imports import Imported
from provisioner.containerd.normal import enable_cri, normalize
from provisioner.containerd.result import Edit, Mode, Refusal, Refused
from provisioner.containerd.syntax import Path
from provisioner.containerd.versions import Release, cri_table, registry_table
from provisioner.containerd.versions import release as parse_release

CONFIG = "/etc/containerd/config.toml"
BINARY = "/usr/bin/nvidia-container-runtime"
_DEFAULT_TYPE: Path = ("containerd", "default_runtime", "runtime_type")
TOO_DEEP = Refusal(
    "The file is nested deeper than any containerd configuration.", "Check that this is containerd's file."
)


def edit(
    config: bytes,
    *,
    mode: Mode,
    containerd: str,
    cgroup_driver: CgroupDriver | None,
    imports: Mapping[str, bytes] | None = None,
    path: str = CONFIG,
    binary: str = BINARY,
    enable_cdi: bool | None = None,
) -> Edit | Refusal:
    """The file `config` edited so that the handler nvidia works.

    config: the file's bytes; empty where there's no file.
    mode: nvidia as the default handler, or as one that pods name by a RuntimeClass.
    containerd: the version on the host, as `containerd --version` prints it.
    cgroup_driver: the kubelet's; None where it isn't known, which is refused if the file doesn't tell.
    imports: the files that `imports` names, by path, as the host has them.
    path: where the file lies on the host; relative imports start from its folder.
    binary: the toolkit's runtime on the host.
    enable_cdi: whether containerd injects CDI devices itself; None leaves that as it is.

    Editing the result again gives the same bytes.
    """
    try:
        wanted = Wanted(Mode(mode), parse_release(containerd), cgroup_driver, binary, enable_cdi)
        return _edit(config, wanted, imports or {}, path)
    except Refused as refused:
        return refused.refusal
    except RecursionError:
        return TOO_DEEP


@dataclass(frozen=True)
class Opened:
    """A file ready to be edited: in a version its containerd reads, with the drop-ins that count."""

    document: Document
    table: Path
    imported: tuple[Imported, ...]
    release: Release

    def cri(self) -> Cri:
        """The CRI settings as containerd sees them, drop-ins included."""
        return Cri.read(drop_ins.effective(self.document.meaning, self.imported, self.release), self.table)

    def main_counts(self) -> bool:
        """False where, on 1.x, a drop-in's CRI table replaces that of the main file."""
        return self.release.merges_imports or drop_ins.holder(self.imported, self.table) is None

    def changed(self, document: Document) -> Opened:
        """The same with another text."""
        return Opened(document, self.table, self.imported, self.release)


def _edit(config: bytes, wanted: Wanted, files: Mapping[str, bytes], path: str) -> Edit:
    k3s.refuse_generated(config, path)
    document = Document.parse(config, path, any_bytes=wanted.release.major < 2)
    imported = drop_ins.read(document, path, files, wanted.release)
    normal = normalize(document, imported, wanted.release)
    notes, warnings = list(normal.notes), list(normal.warnings)
    document, enabled = enable_cri(normal.document)
    notes += enabled
    if document.bom and wanted.release.major >= 2:
        document = Document(document.text)
        notes.append("Took the byte order mark away: containerd 2 doesn't start with it.")
    warnings += drop_ins.check(document.meaning, imported, normal.version, path, wanted.release)
    opened = Opened(document, table_of(document, normal.version, wanted.release), imported, wanted.release)
    planned = _plan(opened, wanted)
    warnings += planned.warnings
    if planned.steps and not opened.main_counts():
        raise replaced_by(opened, path)
    for step in planned.steps:
        opened = opened.changed(apply(opened.document, opened.table, step))
        notes.append(step.note)
    if planned.steps and (left := _plan(opened, wanted).steps):
        raise _overruled(opened, left[0], path)
    _refuse_faults(opened, normal.version)
    if not opened.main_counts():
        holder = drop_ins.holder(imported, opened.table)
        notes.append(f"The handlers come from the drop-in {holder}, which replaces the CRI table of {path}.")
    result = opened.document.encode()
    if result == config:
        notes.append("Nothing to change.")
    return Edit(result, tuple(notes), tuple(dict.fromkeys(warnings)), result != config)


def _refuse_faults(opened: Opened, version: int) -> None:
    """Raises `Refused` where the CRI plugin wouldn't load even so: what is meant there isn't for an editor to say."""
    meaning = drop_ins.effective(opened.document.meaning, opened.imported, opened.release)
    faults = load_faults(opened.cri(), table_at(meaning, registry_table(version)), opened.release)
    if faults:
        raise Refused(
            faults[0].message,
            "Correct that setting by hand, then edit again.",
        )


def table_of(document: Document, version: int, release: Release) -> Path:
    """The CRI table to edit in a file of this version."""
    if version == 2 and drop_ins.merged_paths(document.meaning, release):
        return cri_table(3)
    return cri_table(version)


def _plan(opened: Opened, wanted: Wanted) -> Plan:
    comments = opened.document.comments()
    return plan(opened.cri(), wanted, record.default(comments), record.runtime_type(comments))


def replaced_by(opened: Opened, path: str) -> Refused:
    """The refusal where a drop-in's CRI table replaces the main file's on 1.x."""
    holder = drop_ins.holder(opened.imported, opened.table)
    return Refused(
        f"containerd {opened.release} takes the CRI settings from the drop-in {holder} alone; those in {path} "
        "mean nothing, so an edit there would have no effect.",
        f"Edit {holder} in the same way, or take its CRI table out.",
    )


def _overruled(opened: Opened, step: Step, path: str) -> Refused:
    match step:
        case SetKey():
            where = (*opened.table, *step.path)
        case AddHandler():
            where = (*opened.table, "containerd", "runtimes", step.name)
        case SetDefault() | SetDefaultType():
            where = (*opened.table, *DEFAULT_NAME)
    holder = drop_ins.holder(opened.imported, where)
    if holder is None:
        return Refused(f"{dotted(where)} of {path} can't be set to what is needed.", "Correct that entry by hand.")
    return Refused(
        f"The drop-in {holder} sets {dotted(where)} and has the last word, whatever {path} says.",
        f"Edit {holder}: take that setting out or correct it.",
    )


def apply(document: Document, table: Path, step: Step) -> Document:
    """The document with one step taken."""
    match step:
        case SetKey():
            return document.set((*table, *step.path), step.value)
        case AddHandler():
            path = (*table, "containerd", "runtimes", step.name)
            return document.add_tables(path, step.table, (record.RUNC_ADDED,) if step.name == RUNC else ())
        case SetDefaultType():
            return _set_default_type(document, table, step.runtime_type)
        case SetDefault(name=None):
            return unset_default(document, table)
        case SetDefault():
            return _set_default(document, table, str(step.name))


def _set_default(document: Document, table: Path, name: str) -> Document:
    path = (*table, *DEFAULT_NAME)
    old = at(document.meaning, path)
    document = document.without_comment_lines(record.is_default)
    if name != "nvidia":
        return document.set(path, name)
    new = document.set(path, name)
    added = document.section(path[:-1]) is None and new.section(path[:-1]) is not None
    was = record.Default(old if isinstance(old, str) and old else None, table_added=added)
    return new.comment_above(path, was.comment())


def unset_default(document: Document, table: Path) -> Document:
    """The document without `default_runtime_name` and, if it had been added for it, the header above it."""
    path = (*table, *DEFAULT_NAME)
    recorded = record.default(document.comments())
    document = delete(document, path).without_comment_lines(record.is_default)
    section = document.section(path[:-1])
    if section and not section.pairs and recorded and recorded.table_added:
        document = delete_header(document, path[:-1])
    return document


def delete_header(document: Document, path: Path) -> Document:
    """The document without an empty `[path]` and the empty line above it."""
    section = document.section(path)
    assert section is not None
    start = section.start
    before = document.text.rfind("\n", 0, max(start - 1, 0)) + 1
    if start and not document.text[before:start].strip():
        start = before
    return document.proved(lambda _: None, document.replaced((start, section.header_end), ""), loosely=True)


def _set_default_type(document: Document, table: Path, runtime_type: str) -> Document:
    path = (*table, *_DEFAULT_TYPE)
    old = at(document.meaning, path)
    document = document.without_comment_lines(record.is_type).set(path, runtime_type)
    if runtime_type == "" and isinstance(old, str):
        document = document.comment_above(path, record.type_comment(old))
    return document
