"""Probes of the package manager, run by dash on folders and with commands of the test."""

from __future__ import annotations

from pathlib import Path

from provisioner.facts.packages import AvailableProbe, LockHolder, LockHolderProbe, PackagesProbe
from provisioner.model.fact import Absent, Known, Output, Unknown
from tests.unit.facts.shell import ask, put

LINES = (
    "ii \tnvidia-smi\t535.216.03-2~bpo12+1\tamd64\nhi \tlibcuda1\t535.216.03-2~bpo12+1\tamd64\n"
    "ii \tlibcuda1\t535.216.03-2~bpo12+1\ti386\nrc \tnvidia-docker2\t2.13.0-1\tall\niF \tdkms\t3.0.10\tall\n"
    "iiR\ttree\t2.1.0-1\tamd64\n"
)


def test_dpkg(tmp_path: Path) -> None:
    put(tmp_path, {"/var/lib/dpkg/updates/0001": ""})
    tools = {"dpkg": "echo amd64", "dpkg-query": f"cat <<'X'\n{LINES}X", "rpm": "exit 1"}
    fact = ask(PackagesProbe(), tmp_path, tools)
    assert isinstance(fact, Known)
    state = fact.value
    assert state.version("nvidia-smi") == "535.216.03-2~bpo12+1"
    assert (state.packages["libcuda1"].arch, state.holds) == ("amd64", frozenset({"libcuda1"}))
    # configuration files that a removed package left, and a package left half configured, aren't installed
    assert (state.version("nvidia-docker2"), state.version("dkms"), state.version("tree")) == (None, None, None)
    assert state.broken == ("dkms", "tree")
    assert state.interrupted


def test_a_database_that_cant_be_read_is_unknown(tmp_path: Path) -> None:
    tools = {"dpkg": "echo amd64", "dpkg-query": "echo 'failed to open /var/lib/dpkg/status' >&2; exit 2"}
    fact = ask(PackagesProbe(), tmp_path, tools)
    assert isinstance(fact, Unknown)
    assert "failed to open" in fact.reason


def test_rpm_with_versionlock() -> None:
    text = (
        "dnf\nii \tnvidia-open\t3:580.95.05-1.el9\tnoarch\nii \tbash\t0:5.1.8-9.el9\tx86_64\n"
        "hold nvidia-open-3:580.95.05-1.el9.*\n"
    )
    state = PackagesProbe().parse(Output(0, text.encode()))
    assert state.manager == "dnf"
    assert (state.version("nvidia-open"), state.version("bash")) == ("3:580.95.05-1.el9", "5.1.8-9.el9")
    assert state.holds == {"nvidia-open"}


def test_the_holder_of_the_lock_by_pid_and_name(tmp_path: Path) -> None:
    lock = tmp_path / "var/lib/dpkg/lock-frontend"
    put(tmp_path, {"/var/lib/dpkg/lock-frontend": "", "/proc/4711/comm": "unattended-upgr\n", "/proc/locks": ""})
    (tmp_path / "proc/4711/fd").mkdir()
    (tmp_path / "proc/4711/fd/5").symlink_to(lock)
    assert ask(LockHolderProbe(), tmp_path) == Absent()
    line = f"1: POSIX  ADVISORY  WRITE 4711 fe:01:{lock.stat().st_ino} 0 EOF\n"
    (tmp_path / "proc/locks").write_text("2: FLOCK  ADVISORY  WRITE 1 00:19:3 0 EOF\n" + line)
    assert ask(LockHolderProbe(), tmp_path) == Known(LockHolder(4711, "unattended-upgr"))
    # a process that only waits for it isn't its holder
    (tmp_path / "proc/locks").write_text(line.replace("1: ", "1: -> "))
    assert ask(LockHolderProbe(), tmp_path) == Absent()


def test_versions_of_a_repository(tmp_path: Path) -> None:
    text = (
        " nvidia-smi | 535.261.03-1 | http://archive.example.org/debian bookworm/non-free amd64 Packages\n"
        " nvidia-smi | 535.261.03-1 | http://archive.example.org/debian bookworm/non-free Sources\n"
    )
    fact = ask(AvailableProbe(("nvidia-smi",)), tmp_path, {"apt-cache": f"cat <<'X'\n{text}X"})
    assert isinstance(fact, Known)
    assert [(one.name, one.version) for one in fact.value] == [("nvidia-smi", "535.261.03-1")]
