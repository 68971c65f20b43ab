"""Units that use the cards: stopped in order, remembered on the disk, started in the other order."""

from __future__ import annotations

from pathlib import Path

from provisioner.upgrade.clients import CLIENTS, start_clients, stop_clients
from tests.unit.upgrade.machine import FENCE, Machine

SYSTEMCTL = r"""
d={root}/units
case $1 in
show)
    case "$*" in
    *Id,ActiveState*)
        shift 3
        for u; do s=inactive; [ -e $d/$u ] && s=active; printf 'Id=%s\nActiveState=%s\n\n' $u $s; done ;;
    *LoadState*) for u; do :; done; [ -e $d/$u.gone ] && echo not-found || echo loaded ;;
    *) echo simple; echo success ;;
    esac ;;
stop) note stop $2; [ ! -e $d/$2.stuck ] || {{ echo "Job for $2 failed" >&2; exit 1; }}; rm -f $d/$2 ;;
start) note start $2; [ ! -e $d/$2.bad ] || exit 0; : >$d/$2 ;;
esac
"""

DCGM, FABRIC, PERSISTENCE = "nvidia-dcgm.service", "nvidia-fabricmanager.service", "nvidia-persistenced.service"


def machine(root: Path, *running: str) -> Machine:
    (root / "units").mkdir()
    for unit in running:
        (root / "units" / unit).touch()
    journal = 'echo "could not open the device"'
    return Machine(root, {"systemctl": SYSTEMCTL.format(root=root), "journalctl": journal})


def test_each_before_what_it_talks_to() -> None:
    assert CLIENTS.index("dcgm-exporter.service") < CLIENTS.index(DCGM) < CLIENTS.index(FABRIC)
    assert CLIENTS.index("nvidia-imex.service") < CLIENTS.index(FABRIC) < CLIENTS.index(PERSISTENCE)


def test_only_what_ran_is_stopped_and_started(tmp_path: Path) -> None:
    host = machine(tmp_path, DCGM, PERSISTENCE, "unrelated.service")
    assert host.do(stop_clients(FENCE)).done == (DCGM, PERSISTENCE)
    assert host.state("upgrade-clients").read_text() == f"{DCGM}\n{PERSISTENCE}\n"
    done = host.do(start_clients(FENCE))
    assert done.done == (PERSISTENCE, DCGM)
    assert host.calls == [f"stop {DCGM}", f"stop {PERSISTENCE}", f"start {PERSISTENCE}", f"start {DCGM}"]
    assert not host.state("upgrade-clients").exists()


def test_what_an_interrupted_roll_stopped_is_not_forgotten(tmp_path: Path) -> None:
    host = machine(tmp_path, PERSISTENCE)
    host.state("upgrade-clients").write_text(f"{DCGM}\n")
    assert DCGM in host.do(stop_clients(FENCE)).done
    assert set(host.do(start_clients(FENCE)).done) == {DCGM, PERSISTENCE}


def test_a_unit_that_is_gone_need_not_be_stopped_again(tmp_path: Path) -> None:
    host = machine(tmp_path)
    host.state("upgrade-clients").write_text(f"{DCGM}\n")
    (tmp_path / "units" / f"{DCGM}.stuck").touch()
    assert host.do(stop_clients(FENCE)).done == (DCGM,)
    assert host.calls == []


def test_units_of_the_site_go_first_and_come_last(tmp_path: Path) -> None:
    host = machine(tmp_path, PERSISTENCE, "renderer.service")
    host.do(stop_clients(FENCE, ["renderer.service"]))
    host.do(start_clients(FENCE, ["renderer.service"]))
    assert host.calls[0] == "stop renderer.service"
    assert host.calls[-1] == "start renderer.service"


def test_a_unit_that_does_not_stop(tmp_path: Path) -> None:
    host = machine(tmp_path, DCGM)
    (tmp_path / "units" / f"{DCGM}.stuck").touch()
    done = host.do(stop_clients(FENCE))
    assert done.done == ()
    assert done.reason == f"{DCGM} did not obey: Job for {DCGM} failed"


def test_the_fabric_manager_only_with_an_nvswitch(tmp_path: Path) -> None:
    host = machine(tmp_path)
    host.state("upgrade-clients").write_text(f"{FABRIC}\n")
    assert host.do(start_clients(FENCE)).gone == (FABRIC,)
    assert host.calls == []
    switch = tmp_path / "sys/bus/pci/devices/0000:c1:00.0"
    switch.mkdir(parents=True)
    (switch / "vendor").write_text("0x10de\n")
    (switch / "class").write_text("0x068000\n")
    host.state("upgrade-clients").write_text(f"{FABRIC}\n")
    assert host.do(start_clients(FENCE)).done == (FABRIC,)


def test_a_unit_that_starts_and_dies_is_a_failure_and_stays_remembered(tmp_path: Path) -> None:
    host = machine(tmp_path)
    host.state("upgrade-clients").write_text(f"{DCGM}\n{PERSISTENCE}\n")
    (tmp_path / "units" / f"{DCGM}.bad").touch()
    done = host.do(start_clients(FENCE))
    assert done.done == (PERSISTENCE,)
    assert "could not open the device" in done.reason
    assert host.state("upgrade-clients").exists()


def test_a_unit_that_the_new_packages_lack(tmp_path: Path) -> None:
    host = machine(tmp_path)
    host.state("upgrade-clients").write_text(f"{DCGM}\n")
    (tmp_path / "units" / f"{DCGM}.gone").touch()
    done = host.do(start_clients(FENCE))
    assert done.gone == (DCGM,)
    assert done.reason == ""
