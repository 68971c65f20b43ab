"""What containerd makes of a configuration's handlers, told without the product's own code: a line per file.

`sd` is SystemdCgroup, NCR the toolkit's runtime, "-" unset. containerd 1.x has its own runc only while
the file names no handler at all; 2.x always has it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
VERSIONS = ("1.6.20", "1.7.24", "2.1.9")
BINARY = "/usr/bin/nvidia-container-runtime"
TABLES = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


def case(name: str) -> bytes:
    """The input of this name; empty for a file that doesn't exist."""
    path = CASES / f"{name}.toml"
    return path.read_bytes() if path.exists() else b""


def meaning(data: bytes) -> dict[str, Any]:
    return tomllib.loads(data.decode("utf-8-sig"))


def comments(data: bytes) -> list[str]:
    """Every comment, found by a reader of its own: characters outside strings."""
    found = []
    quote = ""
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    at = 0
    while at < len(text):
        if quote:
            if quote in ('"', '"""') and text[at] == "\\":
                at += 2
                continue
            if text.startswith(quote, at):
                at += len(quote)
                while len(quote) == 3 and text.startswith(quote[0], at):
                    at += 1
                quote = ""
                continue
        elif text[at] in "\"'":
            quote = text[at] * 3 if text.startswith(text[at] * 3, at) else text[at]
            at += len(quote)
            continue
        elif text[at] == "#":
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            found.append(text[at:end].rstrip())
            at = end
            continue
        at += 1
    return found


def containerd_table(document: dict[str, Any], release: str) -> dict[str, Any]:
    version = document.get("version", 1)
    if release.startswith("2") and version < 2:
        return {}
    plugins = document.get("plugins", {})
    table = plugins.get(TABLES[min(version, 3)], {}).get("containerd", {})
    if version == 2 and release.startswith("2"):
        table = {**plugins.get(TABLES[3], {}).get("containerd", {}), **table}
    assert isinstance(table, dict)
    return table


def seen(data: bytes, release: str) -> str:
    """One line: the default, then each handler with its shim, SystemdCgroup and program."""
    table = containerd_table(meaning(data), release)
    runtimes = table.get("runtimes")
    if runtimes is None or release.startswith("2"):
        runtimes = {"runc": {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": False}}} | (
            runtimes or {}
        )
    default = table.get("default_runtime_name") or "runc"
    if table.get("default_runtime", {}).get("runtime_type") and release.startswith("1"):
        default = "default_runtime"
    off = any("cri" in name for name in meaning(data).get("disabled_plugins", []))
    words = [f"default={default}{' (CRI off)' if off else ''}"]
    for name in sorted(runtimes):
        options = runtimes[name].get("options", {})
        shim = str(runtimes[name].get("runtime_type", "-")).removeprefix("io.containerd.")
        binary = str(options.get("BinaryName") or "-").replace(BINARY, "NCR")
        words.append(f"{name}[{shim} sd={options.get('SystemdCgroup', '-')} {binary}]")
    return " ".join(words)
