"""The package script, run by dash with apt's commands played by the test: what is called, and what is told."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from provisioner.engine.compile_packages import compile_packages
from provisioner.errors import ConfigError
from provisioner.model.action import Packages

# Each tool notes its call and does what the file of its first telling word says (a script), else succeeds.
TOOL = """#!/bin/sh
printf '%s %s\\n' "${0##*/}" "$*" >>"{home}/calls"
for w in "$@"; do case $w in -s|--download-only|update|install|hold|unhold|showhold|madison|-W) k=${k:-$w} ;; esac; done
[ ! -e "{home}/${0##*/}.$k" ] || . "{home}/${0##*/}.$k"
"""


@dataclass
class Machine:
    """Scripts for the played commands, and what they were called with."""

    home: Path

    def play(self, **scripts: str) -> None:
        """E.g. apt_get__install="exit 1": two underscores before the word, one is a hyphen."""
        for name, script in scripts.items():
            tool, _, word = name.partition("__")
            flags = {"s": "-s", "download_only": "--download-only", "W": "-W"}
            (self.home / f"{tool.replace('_', '-')}.{flags.get(word, word)}").write_text(script)

    def do(self, action: Packages) -> subprocess.CompletedProcess[str]:
        script = compile_packages(action).replace(
            "PATH=/usr/local/sbin", f"PATH={shlex.quote(str(self.home))}:/usr/local/sbin"
        )
        for folder in ("/var/lib/dpkg/updates", "/etc/apt/sources.list.d", "/etc/dnf"):
            script = script.replace(folder, f"{self.home}{folder}")
        return subprocess.run(["dash", "-s"], input=script, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        """What was changed or simulated, one word each: "unhold a", "simulate", "download", "install", "hold a"."""
        short = []
        for line in (self.home / "calls").read_text().splitlines():
            words = shlex.split(line)
            if words[0] == "apt-mark" and words[1] != "showhold":
                short.append(" ".join(words[1:]))
            elif words[0] == "apt-get":
                short.append(
                    "simulate"
                    if "-s" in words
                    else "download"
                    if "--download-only" in words
                    else "update"
                    if "update" in words
                    else "install"
                )
        return short

    def line(self, word: str) -> list[str]:
        """The words of the last call that has this word."""
        found = [shlex.split(line) for line in (self.home / "calls").read_text().splitlines()]
        return [words for words in found if word in words][-1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "var/lib/dpkg/updates").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    for name in ("apt-get", "apt-mark", "apt-cache", "dpkg-query", "dnf", "rpm"):
        (tmp_path / name).write_text(TOOL.replace("{home}", str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    made = Machine(tmp_path)
    made.play(
        apt_cache__madison="echo ' a | 2 | x'; echo ' a | 1 | x'; echo ' a | 9 | http://x Sources'",
        dpkg_query__W=f'[ -e {tmp_path}/done ] && echo "installed 2"; exit 0',
        apt_get__install=f"touch {tmp_path}/done",
    )
    return made


INSTALL = Packages("apt", install=(("a", "2"),), hold=("a",), unhold=("a",))


def test_unhold_simulate_fetch_install_hold_in_this_order(machine: Machine) -> None:
    machine.play(apt_mark__showhold="echo a; echo htop")
    done = machine.do(INSTALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.calls == ["unhold a", "simulate", "download", "install", "hold a"]
    words = machine.line("Dpkg::Options::=--force-confold")
    assert {"-y", "--no-install-recommends", "a=2", "Dpkg::Options::=--force-confdef"} <= set(words)
    assert "--allow-downgrades" not in words
    assert "DPkg::Lock::Timeout=300" in words


def test_a_downgrade_only_when_it_was_meant(machine: Machine) -> None:
    machine.do(Packages("apt", install=(("a", "2"),), allow_downgrade=True))
    assert "--allow-downgrades" in machine.line("--download-only")


def test_a_version_that_isnt_there_names_those_that_are(machine: Machine) -> None:
    done = machine.do(Packages("apt", install=(("a", "3"),), hold=("a",)))
    assert done.returncode == 1
    assert "a 3 is not in the repositories of this host; they have: 2 1\n" in done.stderr
    machine.play(apt_cache__madison="")
    assert "no repository of this host has a package a" in machine.do(INSTALL).stderr
    calls = machine.home.joinpath("calls").read_text()
    assert calls.count("apt-get") == calls.count(" update\n") == 2, "the lists are read anew, once a transaction"


def test_others_packages_are_never_removed(machine: Machine) -> None:
    machine.play(apt_get__s="echo 'Remv cuda-site-tool [1]'; echo 'Remv old:amd64 [1]'", apt_mark__showhold="echo a")
    done = machine.do(Packages("apt", install=(("a", "2"),), remove=("old",), unhold=("a",)))
    assert done.returncode == 1
    assert "would also remove: cuda-site-tool\n" in done.stderr
    assert machine.calls == ["unhold a", "simulate", "hold a"]


def test_what_is_to_go_goes_in_the_same_transaction(machine: Machine) -> None:
    machine.play(apt_get__s="echo 'Remv old [1]'")
    assert machine.do(Packages("apt", install=(("a", "2"),), remove=("old",))).returncode == 0
    assert machine.line("--download-only")[-2:] == ["a=2", "old-"]


@pytest.mark.parametrize("step", ["apt_get__s", "apt_get__download_only", "apt_get__install"])
def test_a_failure_puts_the_holds_back(machine: Machine, step: str) -> None:
    machine.play(apt_mark__showhold="echo a; echo htop", **{step: "echo 'E: it went wrong'; exit 100"})
    done = machine.do(INSTALL)
    assert done.returncode == 1
    assert "it went wrong" in done.stderr
    assert machine.calls[0] == "unhold a"
    assert machine.calls[-1] == "hold a"


def test_holds_of_others_are_named_when_they_are_in_the_way(machine: Machine) -> None:
    machine.play(apt_mark__showhold="echo htop", apt_get__s="echo 'E: held broken packages.'; exit 100")
    assert "held on this host: htop" in machine.do(INSTALL).stderr


def test_success_is_what_dpkg_says_not_what_apt_says(machine: Machine) -> None:
    machine.play(apt_get__install="exit 0")
    done = machine.do(INSTALL)
    assert done.returncode == 1
    assert "apt ended well, but a is: not there (wanted: 2)" in done.stderr


def test_an_interrupted_dpkg_is_told_before_anything_is_tried(machine: Machine) -> None:
    (machine.home / "var/lib/dpkg/updates/0001").touch()
    done = machine.do(INSTALL)
    assert done.returncode == 1
    assert "dpkg --configure -a" in done.stderr
    assert not (machine.home / "calls").exists()


def test_lists_older_than_the_archive_are_read_anew_once(machine: Machine) -> None:
    stale = 'echo x >>"{0}/n"; [ "$(wc -l <"{0}/n")" -gt 1 ] || {{ echo "E: 404  Not Found"; exit 100; }}'
    machine.play(apt_get__download_only=stale.format(machine.home))
    assert machine.do(Packages("apt", install=(("a", "2"),))).returncode == 0
    assert machine.calls == ["simulate", "download", "update", "download", "install"]


def test_a_full_disk_is_called_that(machine: Machine) -> None:
    machine.play(apt_get__install="echo 'cannot copy: failed to write (No space left on device)'; exit 100")
    done = machine.do(INSTALL)
    assert "there is no space left: /" in done.stderr


def test_lists_of_one_repository_or_of_all(machine: Machine) -> None:
    path = machine.home / "etc/apt/sources.list.d/provision-cuda.sources"
    path.touch()
    assert machine.do(Packages("apt", lists=("cuda",))).returncode == 0
    assert f"Dir::Etc::sourcelist={path}" in machine.line("update")
    assert "APT::Update::Error-Mode=any" in machine.line("update")
    assert machine.do(Packages("apt", lists=("*",))).returncode == 0
    assert not any("sourcelist" in word for word in machine.line("update"))
    assert "is not configured" in machine.do(Packages("apt", lists=("none",))).stderr
    machine.play(apt_get__update="echo 'E: The following signatures were invalid: BADSIG 67'; exit 100")
    done = machine.do(Packages("apt", lists=("cuda",)))
    assert done.returncode == 1
    assert "BADSIG 67" in done.stderr


def test_a_held_lock_is_waited_for_and_then_its_holder_is_named(machine: Machine) -> None:
    text = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 999999999 (unattended-upgr)"
    machine.play(apt_get__s=f"echo {shlex.quote(text)}; exit 100")
    done = machine.do(Packages("apt", install=(("a", "2"),), timeout=2.0))
    assert done.returncode == 1
    assert "another process has held the package lock for 1 s: 999999999" in done.stderr
    once = f'[ -e "{machine.home}/n" ] || {{ touch "{machine.home}/n"; echo {shlex.quote(text)}; exit 100; }}'
    machine.play(apt_get__s=once)
    assert machine.do(Packages("apt", install=(("a", "2"),), timeout=20.0)).returncode == 0


@pytest.mark.parametrize(
    "action",
    [
        Packages("apt", install=(("a; touch /x", None),)),
        Packages("apt", install=(("-o=Dpkg::Pre-Invoke::=x", None),)),
        Packages("apt", install=(("a", "1 $(touch x)"),)),
        Packages("apt", install=(("a-", None),)),
        Packages("apt", remove=("a\nb",)),
        Packages("dnf", hold=("*",)),
        Packages("apt", lists=("../x",)),
    ],
)
def test_what_cant_be_a_name_never_reaches_a_shell(action: Packages) -> None:
    with pytest.raises(ConfigError):
        compile_packages(action)


def test_dnf_installs_by_name_and_version_and_locks(machine: Machine) -> None:
    (machine.home / "rpm").write_text("#!/bin/sh\necho 3:580.95.05-1.el9\n")
    action = Packages("dnf", install=(("nvidia-open", "3:580.95.05-1.el9"),), hold=("nvidia-open",))
    done = machine.do(action)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.line("versionlock") == ["dnf", "-q", "versionlock", "add", "nvidia-open"]
    (machine.home / "rpm").write_text("#!/bin/sh\necho 3:570.172.08-1.el9\n")
    assert "dnf ended well, but nvidia-open is 3:570.172.08-1.el9" in machine.do(action).stderr
