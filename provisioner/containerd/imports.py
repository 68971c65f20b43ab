"""Drop-in files as each containerd reads them: which files `imports` names, and what they do to the CRI settings.

Measured on 1.6.20, 1.7.24 and 2.1.9: on 1.x a plugin's table in a drop-in replaces the whole table of
the main file and of earlier drop-ins; 2.x merges them, the later file winning. Lists such as
`disabled_plugins` add up. Relative globs are not read on 1.6. The files are read breadth first, in
the order of `imports`, the matches of a glob sorted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase

from provisioner.containerd.document import Document, Table, at
from provisioner.containerd.result import Refused
from provisioner.containerd.syntax import Path
from provisioner.containerd.versions import CRI_NAMES, CRI_V2, CRI_V3, Release
from provisioner.containerd.versions import release as parse_release


@dataclass(frozen=True)
class Imported:
    """A drop-in that containerd reads together with the main file."""

    path: str
    meaning: Table


def patterns(meaning: Table, path: str, release: Release) -> tuple[str, ...]:
    """The absolute paths and globs that the file at `path` imports, in order."""
    written = meaning.get("imports", [])
    if not isinstance(written, list):
        return ()
    found = []
    for pattern in written:
        if not isinstance(pattern, str) or not pattern:
            continue
        relative = not posixpath.isabs(pattern)
        if relative and "*" in pattern and release < Release(1, 7):
            continue
        found.append(posixpath.normpath(posixpath.join(posixpath.dirname(path), pattern)))
    return tuple(found)


def matches(pattern: str, path: str) -> bool:
    """Whether Go's `filepath.Glob(pattern)` gives `path`: a star stays within one folder."""
    if "*" not in pattern:
        return pattern == path
    parts, names = pattern.split("/"), path.split("/")
    return len(parts) == len(names) and all(fnmatchcase(name, part) for name, part in zip(names, parts, strict=True))


def read(main: Document, path: str, files: Mapping[str, bytes], release: Release) -> tuple[Imported, ...]:
    """The drop-ins in the order in which containerd reads them.

    `files` maps paths to contents; files that nothing imports are left out. Raises `Refused` for a
    drop-in that can't be read.
    """
    loaded: dict[str, Imported] = {}
    waiting = list(patterns(main.meaning, path, release))
    while waiting:
        pattern = waiting.pop(0)
        for name in sorted(files):
            if name in loaded or name == path or not matches(pattern, name):
                continue
            document = Document.parse(files[name], name, any_bytes=release.major < 2)
            loaded[name] = Imported(name, document.meaning)
            waiting += patterns(document.meaning, name, release)
    return tuple(loaded.values())


def check(main: Table, imported: tuple[Imported, ...], version: int, path: str, release: Release) -> tuple[str, ...]:
    """Warnings about the drop-ins. Raises `Refused` where one of them defeats any edit of the main file."""
    found = {drop_in.path for drop_in in imported}
    warnings = [
        f"imports names {name}, which wasn't found; containerd 1.x doesn't start without it."
        for name in patterns(main, path, release)
        if "*" not in name and name not in found and release.major < 2
    ]
    for drop_in in imported:
        own = drop_in.meaning.get("version")
        if type(own) is int and own > 0 and own != version:
            raise Refused(
                f"{path} has version {version} and the drop-in {drop_in.path} version {own}: containerd then "
                "loses the settings of one of them, or (2.2 and later) doesn't start.",
                f"Bring {drop_in.path} to version {version} (`containerd config migrate`), or take it out of imports.",
            )
        off = drop_in.meaning.get("disabled_plugins")
        if isinstance(off, list) and any(isinstance(name, str) and name in CRI_NAMES for name in off):
            raise Refused(
                f"The drop-in {drop_in.path} switches the CRI plugin off (disabled_plugins), whatever {path} says.",
                f"Take the CRI plugin out of disabled_plugins in {drop_in.path}.",
            )
        if type(own) is not int and release >= Release(2, 2):
            warnings.append(
                f"The drop-in {drop_in.path} has no version; containerd {release} reads it as an old one. "
                f"Write version = {version} at its top."
            )
    return tuple(warnings)


def effective(main: Table, imported: tuple[Imported, ...], release: Release) -> Table:
    """What containerd sees of `plugins` after all imports; the rest of the main file as it is."""
    result = deepcopy(main)
    for drop_in in imported:
        plugins = drop_in.meaning.get("plugins")
        if not isinstance(plugins, dict):
            continue
        target = result.setdefault("plugins", {})
        for name, table in plugins.items():
            if release.merges_imports:
                _merge(target, name, table)
            else:
                target[name] = deepcopy(table)
    return result


def _merge(target: Table, name: str, item: object) -> None:
    if isinstance(item, dict) and isinstance(target.get(name), dict):
        for inner, value in item.items():
            _merge(target[name], inner, value)
    else:
        target[name] = deepcopy(item)


def holder(imported: tuple[Imported, ...], path: Path) -> str | None:
    """The drop-in that has the last word on `path`, or None."""
    for drop_in in reversed(imported):
        if at(drop_in.meaning, path) is not None:
            return drop_in.path
    return None


def merged_paths(meaning: Table, release: Release) -> bool:
    """Whether a version-2 file on containerd 2 keeps its CRI settings in the table of version 3 (2.x reads both)."""
    plugins = meaning.get("plugins")
    if release.major < 2 or not isinstance(plugins, dict):
        return False
    old, new = (at(plugins, (name, "containerd")) is not None for name in (CRI_V2, CRI_V3))
    if old and new:
        raise Refused(
            f'This version-2 file configures handlers in both plugins."{CRI_V2}" and plugins."{CRI_V3}"; '
            "containerd 2 merges them and it can't be said which of the two should be edited.",
            f'Keep one of the two tables: "{CRI_V2}" in a version-2 file.',
        )
    return new


def imported_patterns(config: bytes, path: str, containerd: str) -> tuple[str, ...]:
    """The absolute paths and globs that a file at `path` imports; none where it can't be read, which `edit` reports."""
    try:
        return patterns(Document.parse(config, path, any_bytes=True).meaning, path, parse_release(containerd))
    except (Refused, RecursionError):
        return ()
