"""Units and inputs of services, as systemctl and the disk show them."""

from __future__ import annotations

from pathlib import Path

from provisioner.facts.services import Inputs, InputsProbe, Unit, UnitProbe
from provisioner.model.fact import Absent, Known, Output, Unknown
from tests.unit.facts.shell import ask, put

SHOW = b"""\
Enabled=enabled
InactiveExitTimestampMonotonic=4000000
ExecMainStartTimestampMonotonic=5000000
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/lib/systemd/system/chrony.service
DropInPaths=/etc/systemd/system/chrony.service.d/a.conf /etc/systemd/system/chrony.service.d/b.conf
NeedDaemonReload=yes
Now=1000010.5
Uptime=15.50
"""


def test_a_running_unit() -> None:
    unit = UnitProbe("chrony.service").parse(Output(0, SHOW))
    assert unit == Unit(
        enabled="enabled",
        load="loaded",
        active="active",
        sub="running",
        reload_needed=True,
        started=1000000.0,
        fragment="/lib/systemd/system/chrony.service",
        drop_ins=("/etc/systemd/system/chrony.service.d/a.conf", "/etc/systemd/system/chrony.service.d/b.conf"),
    )


def test_a_unit_that_ended_has_no_start() -> None:
    unit = UnitProbe("x.service").parse(Output(0, SHOW.replace(b"ActiveState=active", b"ActiveState=failed")))
    assert unit.started is None
    assert not unit.runs


def test_without_systemd_only_the_links_speak() -> None:
    assert UnitProbe("x.service").parse(Output(0, b"Enabled=disabled\n")) == Unit("disabled")
    assert UnitProbe("x.service").read(Output(69, b"")) == Absent()


def test_inputs_with_and_without_a_stamp() -> None:
    probe = InputsProbe("x.service", ("/etc/x", "/etc/y"))
    now = b"aa  /etc/x\nabsent  /etc/y\n"
    text = b"stamp\nbb  /etc/x\nabsent  /etc/y\nchanged\n1796056960.1\nnow\n" + now
    assert probe.parse(Output(0, text)) == Inputs(now.decode(), "bb  /etc/x\nabsent  /etc/y\n", 1796056960.1)
    assert probe.parse(Output(0, b"none\nchanged\nnow\n" + now)) == Inputs(now.decode(), None, 0.0)


def test_a_unit_of_a_host_without_running_systemd(tmp_path: Path) -> None:
    disabled = {"systemctl": 'case "$1" in is-enabled) echo disabled; exit 1;; *) exit 9;; esac'}
    missing = {"systemctl": "echo 'Failed to get unit file state for x.service: No such file or directory' >&2; exit 1"}
    trixie = {"systemctl": "echo not-found; exit 4"}
    hanging = {"systemctl": "echo 'Connection timed out' >&2; exit 1"}
    probe = UnitProbe("x.service")
    assert ask(probe, tmp_path, disabled) == Known(Unit("disabled"))
    assert ask(probe, tmp_path, missing) == Absent()
    assert ask(probe, tmp_path, trixie) == Absent()
    assert ask(probe, tmp_path, hanging) == Unknown("Connection timed out")


def test_sums_of_files_and_folders(tmp_path: Path) -> None:
    put(tmp_path, {"/x/a b": "one", "/x/sub/c": "two", "/y": "three"})
    paths = (f"{tmp_path}/x", f"{tmp_path}/y", f"{tmp_path}/gone")
    first = ask(InputsProbe("x.service", paths), tmp_path)
    assert isinstance(first, Known)
    assert [line.split("  ")[1] for line in first.value.now.splitlines()] == list(paths)
    assert first.value.now.splitlines()[2] == f"absent  {paths[2]}"
    assert first.value.stamp is None
    put(tmp_path, {"/x/sub/c": "other", "/var/lib/provision/stamps/x.service": first.value.now})
    second = ask(InputsProbe("x.service", paths), tmp_path)
    assert isinstance(second, Known)
    assert second.value.stamp == first.value.now
    assert [
        one == other for one, other in zip(first.value.now.splitlines(), second.value.now.splitlines(), strict=True)
    ] == [
        False,
        True,
        True,
    ]
    assert second.value.changed > first.value.changed - 1
