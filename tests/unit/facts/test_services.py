"""Units and inputs of services, as systemctl and the disk show them."""

from __future__ import annotations

from provisioner.facts.services import Inputs, InputsProbe, Unit, UnitProbe
from provisioner.model.fact import Absent, Output

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
