"""A configuration file brought to a version that its containerd reads, and its CRI plugin switched on."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.containerd.cri import LINUX_V1, RUNC_V1, RUNC_V2, Cri, table_at
from provisioner.containerd.deletion import map_strings, rename
from provisioner.containerd.document import Document, Table, at
from provisioner.containerd.imports import Imported
from provisioner.containerd.result import Refused
from provisioner.containerd.syntax import Pair, Path
from provisioner.containerd.versions import CRI_NAMES, CRI_V1, CRI_V2, CRI_V3, IMAGES_V3, Release, cri_table, full_name


@dataclass(frozen=True)
class Normal:
    """A document with the version that containerd will read it as, and what was done to get there."""

    document: Document
    version: int
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def normalize(document: Document, imported: tuple[Imported, ...], release: Release) -> Normal:
    """The document in a version that `release` reads. Raises `Refused` where there's no such."""
    version = _written(document)
    names = set(table_at(document.meaning, ("plugins",)))
    if version is None:
        return _unversioned(document, names, imported, release)
    if version > release.newest_config:
        raise Refused(
            f"The file has config version {version}, but containerd {release} reads versions up to "
            f"{release.newest_config}: it doesn't start with it, or ignores all its tables.",
            "Check which containerd is installed; for this one, write the file in version 2.",
        )
    if version == 1 and release.major >= 2:
        return _converted(document, release)
    warnings = []
    for other in (1, 2, 3):
        name = cri_table(other)[-1]
        read = other == version or (other == 3 and version >= 3) or (other == 3 and version == 2 and release.major >= 2)
        if not read and at(document.meaning, ("plugins", name, "containerd")) is not None:
            warnings.append(
                f'The settings in plugins."{name}" mean nothing to containerd {release} in a version-{version} file.'
            )
    notes: tuple[str, ...] = ()
    if version >= 2:
        document, notes = _full_ids(document)
    return Normal(document, version, notes, tuple(warnings))


def _written(document: Document) -> int | None:
    version = document.meaning.get("version")
    if version is None:
        return None
    if type(version) is not int or version < 0:
        raise Refused(
            f"version is {version!r} in this file; containerd only takes a whole number and doesn't start with this.",
            "Write version = 2, without quotes.",
        )
    return version or 1


def written_version(document: Document) -> int:
    """The version that the file says it has; 1 where it says none but isn't empty, 2 where it is."""
    version = document.meaning.get("version")
    if type(version) is int and version > 0:
        return version
    return 1 if document.meaning else 2


def _unversioned(document: Document, names: set[str], imported: tuple[Imported, ...], release: Release) -> Normal:
    if CRI_V1 in names and release.major < 2:
        warnings = () if CRI_V2 not in names else (f'plugins."{CRI_V2}" means nothing in a file without version.',)
        return Normal(document, 1, warnings=warnings)
    new_tables = names & {CRI_V3, IMAGES_V3} and CRI_V2 not in names
    version = 3 if new_tables else max([2, *_versions(imported)])
    if version > release.newest_config:
        raise Refused(
            f"The file has tables of config version {version}, which containerd {release} doesn't read.",
            "Write the file in version 2 for this containerd.",
        )
    if not names & {CRI_V2, CRI_V3, IMAGES_V3} and any("." not in name for name in names - {"version"}):
        if release.major < 2:
            return Normal(document, 1)
        return _converted(document, release)
    why = (
        "without it containerd takes the file for version 1 and ignores its CRI tables"
        if names
        else "a new file needs it"
    )
    if document.meaning and not names:
        why = "nothing in the file depends on the old version, and this one loads on every containerd"
    document, moved = _with_version(document, version)
    document, renamed = _full_ids(document)
    note = f"Moved version = {version} to the top" if moved else f"Added version = {version}"
    return Normal(document, version, (f"{note}: {why}.", *renamed))


def _versions(imported: tuple[Imported, ...]) -> list[int]:
    return [v for drop_in in imported if type(v := drop_in.meaning.get("version")) is int]


def _misplaced(document: Document, version: int) -> Pair | None:
    """A top-level `version` that slipped below a header, where it is a key of that table."""
    for section in document.syntax.sections:
        for pair in section.pairs:
            inside = section.segments and not section.array and pair.path == (*section.path, "version")
            if inside and document.text[slice(*pair.value)] == str(version):
                return pair
    return None


def _with_version(document: Document, version: int) -> tuple[Document, bool]:
    """The document with `version` at its top; True where a misplaced one was moved there."""
    if "version" in document.meaning:
        return document.set(("version",), version), False
    moved = _misplaced(document, version)
    statement = f"version = {version}"
    if moved:
        statement = document.text[moved.segments[0].start : moved.end].rstrip("\r\n")
        lost = document.replaced((moved.start, moved.end), "")

        def change(meaning: Table) -> None:
            parent = at(meaning, moved.path[:-1])
            assert isinstance(parent, dict)
            del parent["version"]

        document = document.proved(change, lost)

    def add(meaning: Table) -> None:
        meaning["version"] = version

    return document.proved(add, document.insert_first(statement)), moved is not None


def _full_ids(document: Document) -> tuple[Document, tuple[str, ...]]:
    """Short plugin names in `disabled_plugins` and `required_plugins`, which versions 2 and later refuse, made full."""
    notes = []
    for key in ("disabled_plugins", "required_plugins"):
        for name in _strings(document.meaning, key):
            if "." in name or (key == "disabled_plugins" and name in CRI_NAMES):
                continue
            if full_name(name) is None:
                raise Refused(
                    f"{key} has {name!r}; from version 2 on only full names are taken, and none is known for it.",
                    f"Write the full name (io.containerd.….v1.{name}) there, or take it out.",
                )
            notes.append(f"{key}: {name} is {full_name(name)} from version 2 on.")
        document = map_strings(document, (key,), lambda name: full_name(name) or name)
    return document, tuple(notes)


def _strings(meaning: Table, key: str) -> list[str]:
    items = meaning.get(key, [])
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise Refused(f"{key} is not a list of strings, so containerd can't use it.", "Correct that entry by hand.")
    return items


def _converted(document: Document, release: Release) -> Normal:
    """A version-1 file in version 2: containerd 2 ignores all CRI settings of a version-1 file."""
    plugins = table_at(document.meaning, ("plugins",))
    names: dict[str, str] = {}
    for short in plugins:
        full = full_name(short)
        if full is None:
            raise Refused(
                f"The version-1 plugin table plugins.{short} has no known name in version 2.",
                f"Take plugins.{short} out, or convert the file by `containerd config migrate`.",
            )
        if full != short:
            if full in plugins:
                raise Refused(
                    f'The file has both plugins.{short} and plugins."{full}"; it can\'t be said which of them counts.',
                    "Keep one of the two tables.",
                )
            names[short] = full
    old = document.meaning.get("version")
    document, _ = _with_version(document, 2)
    document = rename(document, ("plugins",), names)
    document, renamed = _full_ids(document)
    notes = [
        f"Converted from version {old or '1 (no version given)'} to 2: containerd {release} ignores the CRI settings "
        "of a version-1 file.",
        *renamed,
    ]
    warnings = []
    cri: Path = cri_table(2)
    for name, runtime in Cri.read(document.meaning, cri).runtimes.items():
        kind = runtime.get("runtime_type")
        if kind == RUNC_V1 or (kind == LINUX_V1 and not runtime.get("runtime_engine")):
            document = document.set((*cri, "containerd", "runtimes", name, "runtime_type"), RUNC_V2)
            notes.append(f"{name}: runtime_type {kind} is gone in containerd 2; set to {RUNC_V2}.")
        elif kind == LINUX_V1:
            warnings.append(f"{name}: runtime_type {kind} is gone in containerd 2; this handler can't start pods.")
    return Normal(document, 2, tuple(notes), tuple(warnings))


def enable_cri(document: Document) -> tuple[Document, tuple[str, ...]]:
    """The document with the CRI plugin taken out of `disabled_plugins`."""
    off = [name for name in _strings(document.meaning, "disabled_plugins") if name in CRI_NAMES]
    if not off:
        return document, ()
    document = map_strings(document, ("disabled_plugins",), lambda name: None if name in CRI_NAMES else name)
    return document, (f"Took {', '.join(off)} out of disabled_plugins: Kubernetes needs the CRI plugin.",)
