"""Finding tasks: importing the modules that register them, from the product, a site's folder, or installed packages."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

import provisioner
from provisioner.errors import PlaybookError, ProvisionError

ENTRY_POINTS = "provisioner.tasks"
"""Group of entry points; each names a module (or an object in it) whose import registers tasks."""


def load_shipped_tasks() -> None:
    """Import every module of the product's tasks. They are found by looking, so a new one needs no list."""
    package = Path(provisioner.__file__).parent / "tasks"
    for module in pkgutil.walk_packages([str(package)], "provisioner.tasks."):
        importlib.import_module(module.name)


def load_folder(folder: Path) -> None:
    """Import each `*.py` of a site's `tasks` folder by its path, once. Raises PlaybookError with file and line."""
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith("_"):
            continue
        mark = hashlib.sha256(str(path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        name = f"provision_site_tasks_{mark}_{path.stem}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise PlaybookError("the site's tasks can't be imported", file=path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):
                raise
            raise PlaybookError(
                f"the site's tasks can't be imported: {_said(error)}",
                why=type(error).__name__,
                remedy="mend the file, or move it out of the folder `tasks`",
                file=path,
                line=_line_in(error, path),
            ) from error


def load_entry_points() -> None:
    """Import what installed packages offer. Raises PlaybookError naming the package that is broken."""
    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:
            owner = point.dist.name if point.dist else "an installed package"
            raise PlaybookError(
                f"the tasks of {owner} can't be imported: {_said(error)}",
                why=f"{type(error).__name__} in its entry point {point.name} = {point.value} ({ENTRY_POINTS})",
                remedy=f"mend or uninstall {owner}",
            ) from error


def load_tasks(wanted: Collection[str], known: Collection[str], folder: Path | None) -> None:
    """Import until every wanted task is known, or nothing is left to import.

    `known` is the live registry. Installed packages are looked at only for a name that neither the product nor the
    site's folder has, so a broken one can't hurt a playbook that doesn't need it.
    """
    load_shipped_tasks()
    if folder is not None and folder.is_dir():
        load_folder(folder)
    if any(name not in known for name in wanted):
        load_entry_points()


def _said(error: Exception) -> str:
    return error.what if isinstance(error, ProvisionError) else str(error) or type(error).__name__


def _line_in(error: Exception, path: Path) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None
