"""Taking the handler `nvidia` out of containerd's `config.toml` again."""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.containerd import imports as drop_ins
from provisioner.containerd import k3s, record
from provisioner.containerd.cri import DEFAULT_NAME, NVIDIA, RUNC, RUNC_V2, Cri
from provisioner.containerd.deletion import delete
from provisioner.containerd.document import Document, at
from provisioner.containerd.edit import CONFIG, TOO_DEEP, Opened, apply, replaced_by, table_of
from provisioner.containerd.handler import SetDefault, SetDefaultType, back
from provisioner.containerd.normal import written_version
from provisioner.containerd.result import Edit, Refusal, Refused
from provisioner.containerd.syntax import Path
from provisioner.containerd.versions import release as parse_release


def remove(
    config: bytes, *, containerd: str, imports: Mapping[str, bytes] | None = None, path: str = CONFIG
) -> Edit | Refusal:
    """The file without the handler nvidia, with the default that was recorded (or runc) back in its place.

    A conversion of the file's version and an enabled CRI plugin stay; a runc handler that had been
    added together with nvidia goes. The arguments are those of `edit`.
    """
    try:
        return _remove(config, containerd, imports or {}, path)
    except Refused as refused:
        return refused.refusal
    except RecursionError:
        return TOO_DEEP


def _remove(config: bytes, containerd: str, files: Mapping[str, bytes], path: str) -> Edit:
    release = parse_release(containerd)
    k3s.refuse_generated(config, path)
    document = Document.parse(config, path, any_bytes=release.major < 2)
    imported = drop_ins.read(document, path, files, release)
    opened = Opened(document, table_of(document, written_version(document), release), imported, release)
    notes = []
    cri = Cri.read(document.meaning, opened.table)
    recorded = record.default(document.comments())
    if NVIDIA in cri.runtimes:
        opened = opened.changed(delete(opened.document, (*opened.table, "containerd", "runtimes", NVIDIA)))
        notes.append("Took the handler nvidia out.")
    opened, undone = _without_added_runc(opened)
    notes += undone
    opened, restored = _default_back(opened, cri, recorded)
    notes += restored
    opened, kept = _runc_where_needed(opened, cri)
    notes += kept
    _refuse_left_over(opened, path)
    result = opened.document.encode()
    if result == config:
        notes.append("Nothing to change.")
    return Edit(result, tuple(notes), (), result != config)


def _default_back(opened: Opened, before: Cri, recorded: record.Default | None) -> tuple[Opened, list[str]]:
    notes = []
    document = opened.document
    if before.default == NVIDIA:
        name = back(before, recorded)
        document = apply(document, opened.table, SetDefault(name, ""))
        notes.append(f"The default handler is {name or 'unset (runc)'} again.")
    else:
        document = document.without_comment_lines(record.is_default)
    old_type = record.runtime_type(document.comments())
    if old_type is not None and before.default_runtime_type == "":
        document = apply(document, opened.table, SetDefaultType(old_type, ""))
        notes.append("The table default_runtime counts again.")
    return opened.changed(document), notes


def _without_added_runc(opened: Opened) -> tuple[Opened, list[str]]:
    """Without the runc handler that came with nvidia, if it is still as it was added."""
    document = opened.document
    if record.RUNC_ADDED not in document.comments():
        return opened, []
    path: Path = (*opened.table, "containerd", "runtimes", RUNC)
    runc = at(document.meaning, path)
    own = runc if isinstance(runc, dict) else {}
    untouched = own.get("runtime_type") == RUNC_V2 and own.keys() <= {"runtime_type", "options"}
    untouched = untouched and own.get("options", {}).keys() <= {"SystemdCgroup"}
    document = document.without_comment_lines(lambda comment: comment == record.RUNC_ADDED)
    if not untouched:
        return opened.changed(document), []
    return opened.changed(delete(document, path)), ["Took the handler runc out, which had been added with nvidia."]


def _runc_where_needed(opened: Opened, before: Cri) -> tuple[Opened, list[str]]:
    """With runc where the default means it and containerd 1.x would have none: its own is gone as soon as there is
    another handler, and even for an empty table `runtimes`, which therefore goes.
    """
    document = opened.document
    runtimes = (*opened.table, "containerd", "runtimes")
    if at(document.meaning, runtimes) == {} and NVIDIA in before.runtimes:
        return opened.changed(delete(document, runtimes)), []
    cri = Cri.read(document.meaning, opened.table)
    needed = cri.runtimes and RUNC not in cri.runtimes and (cri.default or RUNC) == RUNC
    if opened.release.major >= 2 or not needed or NVIDIA not in before.runtimes:
        return opened, []
    cgroup = at(before.runtimes[NVIDIA], ("options", "SystemdCgroup"))
    options = {"options": {"SystemdCgroup": cgroup}} if isinstance(cgroup, bool) else {}
    document = document.add_tables((*runtimes, RUNC), {"runtime_type": RUNC_V2, **options})
    return opened.changed(document), [
        "Added the handler runc: the default needs it and containerd 1.x has none of its own beside others."
    ]


def _refuse_left_over(opened: Opened, path: str) -> None:
    """Raises `Refused` where a drop-in still brings the handler, or still names it as the default."""
    cri = opened.cri()
    if NVIDIA not in cri.runtimes and cri.default != NVIDIA:
        return
    if not opened.main_counts():
        raise replaced_by(opened, path)
    for key in (("containerd", "runtimes", NVIDIA), DEFAULT_NAME):
        holder = drop_ins.holder(opened.imported, (*opened.table, *key))
        if holder:
            raise Refused(
                f"The handler nvidia, or the default that names it, comes from the drop-in {holder}.",
                f"Take it out of {holder}.",
            )
