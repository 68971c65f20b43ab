"""Looks at this machine, which has a card: do the stand-ins tell the truth, and does the product read it right?

Changes nothing; must be root. Ends with 0 when nothing differed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.gpucheck.expectations import ALL, Expectation

REPO = Path(__file__).parents[2]
PROVISION = str(Path(sys.executable).with_name("provision"))
CONFIG = Path("/etc/containerd/config.toml")

Told = Callable[[bool | None, str, str], None]


def main() -> int:
    differing = 0

    def tell(good: bool | None, what: str, detail: str = "") -> None:
        nonlocal differing
        differing += good is False
        print({True: "same   ", False: "DIFFERS", None: "absent "}[good], what + (f": {detail}" if detail else ""))

    if os.geteuid() != 0:
        print("gpu-check: run it as root; only root reads a card's configuration space", file=sys.stderr)
        return 2
    if not Path("/proc/driver/nvidia/version").exists():
        print("gpu-check: no NVIDIA driver is loaded here; this is for a host with a working card", file=sys.stderr)
        return 2
    for part in (stand_ins, probe, self_test, containerd):
        print(f"--- {(part.__doc__ or '').splitlines()[0]}")
        part(tell)
    print(f"{differing} differ" if differing else "nothing differs")
    return 1 if differing else 0


def run(words: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Its end and output; 124 after two minutes."""
    try:
        return subprocess.run(words, input=text or "", capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "not finished after 120 s")


def stand_ins(tell: Told) -> None:
    """What the tests' stand-ins claim of a host with a card"""
    for each in ALL:
        tell(*compared(each))


def compared(each: Expectation) -> tuple[bool | None, str, str]:
    if each.needs and shutil.which(each.needs) is None:
        return None, each.what, f"{each.needs} is not here"
    done = run(["sh", "-c", each.command])
    printed = (done.stdout + done.stderr).strip()
    if each.holds(printed):
        return True, each.what, ""
    return False, each.what, f"\n  asked:    {each.command}\n  expected: {each.answer!r}\n  here:     {printed!r}"


def probe(tell: Told) -> None:
    """What the product reads of this host"""
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "here.toml"
        inventory.write_text('[hosts.here]\naddress = "127.0.0.1"\n')
        done = run([PROVISION, "facts", str(inventory), "--local", "--json"])
    if done.returncode != 0:
        tell(False, "provision facts --local", done.stderr.strip() or done.stdout.strip())
        return
    facts = json.loads(done.stdout)["hosts"]["here"]
    for path, reason in unknowns(facts):
        tell(False, path, f"unknown: {reason}")
    driver, cards = facts.get("driver") or {}, facts.get("cards") or []
    tell(bool(driver.get("loaded")), "driver", json.dumps(driver))
    tell(bool(cards), "cards", json.dumps(cards))


def unknowns(told: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(where, reason) of everything that couldn't be read."""
    if isinstance(told, dict):
        if told.keys() == {"unknown"}:
            yield path, str(told["unknown"])
            return
        for key, value in told.items():
            yield from unknowns(value, f"{path}.{key}".lstrip("."))


def self_test(tell: Told) -> None:
    """The boot self-test, its verdict kept in a folder of its own"""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "selftest.conf"
        settings.write_text(f"STATE_DIR={folder}\nEXPECTED_CARDS=0\nDEADLINE=90\n")
        done = run(["sh", str(REPO / "templates/selftest/provision-selftest"), str(settings)])
        try:
            verdict = json.loads((Path(folder) / "selftest.json").read_text())
        except (OSError, ValueError) as error:
            tell(False, "the self-test", f"no verdict: {error}; it ended with {done.returncode}: {done.stderr.strip()}")
            return
    for check in verdict["checks"]:
        tell(check["result"] == "pass", check["name"], f"{check['result']} {check['reason']} {check['detail']}".strip())
    tell(verdict["result"] == "pass", "verdict", f"{verdict['result']} after {verdict['seconds']} s")


def containerd(tell: Told) -> None:
    """This host's containerd, with the configuration that the product would give it"""
    if shutil.which("containerd") is None:
        tell(None, "containerd", "not here")
        return
    version = re.search(r"\bv?(\d+\.\d+\.\d+\S*)", run(["containerd", "--version"]).stdout)
    if version is None:
        tell(False, "containerd --version", run(["containerd", "--version"]).stdout)
        return
    edit = [PROVISION, "containerd-config", "--mode", "runtimeclass", "--containerd", version[1]]
    edit += ["--cgroup-driver", "systemd", "--imports-root", "/"]
    edited = run(edit, CONFIG.read_text() if CONFIG.exists() else "")
    if edited.returncode != 0:
        tell(False, f"{CONFIG} can be edited", edited.stderr.strip())
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as candidate:
        candidate.write(edited.stdout)
        candidate.flush()
        dump = run(["containerd", "--config", candidate.name, "config", "dump"])
    good = dump.returncode == 0 and "nvidia-container-runtime" in dump.stdout
    tell(good, f"containerd {version[1]} reads the edited configuration", "" if good else dump.stderr.strip())


if __name__ == "__main__":
    sys.exit(main())
