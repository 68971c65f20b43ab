"""The layout tells the truth: imports point upwards only, pure layers stay pure, files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "provisioner"
LAYERS = (
    ("errors", "quoting", "replacing"),
    ("model",),
    ("config",),
    ("facts",),
    ("containerd",),
    ("tasks",),
    ("transport",),
    ("engine",),
    ("kube",),
    ("upgrade",),
    ("doctor",),
    ("report",),
    ("api",),
    ("cli",),
)
ALLOWED_DOWN = {
    # The playbook's tables are checked against the tasks' fields where they are read, with the line they stand in.
    "config": {"tasks", "facts"},
}
PURE = ("model", "facts", "containerd", "tasks")
IMPURE = {"subprocess", "socket", "paramiko", "fabric", "threading", "urllib.request", "http", "shutil", "tempfile"}
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rank(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ids(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", [path for path in SOURCES if layer(path) != "__init__"], ids=ids)
def test_imports_point_upwards(path: Path) -> None:
    here = layer(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "provisioner" or len(parts) == 1 or parts[1] == "__version__":
            continue
        allowed = rank(parts[1]) <= rank(here) or parts[1] in ALLOWED_DOWN.get(here, set())
        assert allowed, f"{here} must not import {name}"
    if here == "report":
        assert not any(name.startswith("provisioner.tasks") for name in imports(path))


@pytest.mark.parametrize("path", [path for path in SOURCES if layer(path) in PURE], ids=ids)
def test_pure_layers_touch_nothing(path: Path) -> None:
    touched = {name for name in imports(path) if name in IMPURE or name.split(".")[0] in IMPURE}
    assert not touched, f"{ids(path)} imports {touched}"


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_a_file_has_one_purpose(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "base", "misc"}


def test_only_the_transport_knows_ssh() -> None:
    users = {layer(path) for path in SOURCES for name in imports(path) if name.split(".")[0] in {"paramiko", "fabric"}}
    assert users <= {"transport"}
