"""The boot self-test against cards and modules that really misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.lab.site import Site
from tests.vm import inventory, witness
from tests.vm.machine import Machine

#: Seconds that the test may take where a card hangs.
DEADLINE = 20
POOL = "/srv/lab-repo/nvidia/pool/main"


def _tested(machine: Machine) -> dict[str, Any]:
    """The verdict of the boot's own unit, started again."""
    machine.exec("systemctl restart provision-selftest.service", check=True, timeout=180)
    return _verdict(machine)


def _verdict(machine: Machine) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(machine.get("/var/lib/provision/selftest.json"))
    return read


def _told(machine: Machine, site: Site) -> dict[str, Any]:
    facts: dict[str, Any] = site.json("facts")["hosts"][machine.name]["self_test"]
    return facts


def _checks(verdict: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["reason"] or check["result"] for check in verdict["checks"]}


def test_a_card_that_vanished_between_two_boots_is_a_fail_before_kubelet(
    vm: Callable[..., Machine], site: Site
) -> None:
    machine = vm("node", cards=2)
    witness.install(machine)
    inventory.write(site, machine)
    machine.comes_back = False
    machine.reboot()
    machine.unplug(1)
    machine.comes_back = True
    machine.start()

    kubelet = witness.seen(machine, "kubelet")
    assert kubelet.verdict is not None, "kubelet started before the self-test of this boot had ended"
    assert (kubelet.verdict["result"], kubelet.verdict["reason"]) == ("fail", "CardMissing"), kubelet.verdict
    assert kubelet.verdict["detail"] == "1 of 2 cards are on the PCI bus"
    told = _told(machine, site)
    assert (told["result"], told["reason"], told["trusted"]) == ("fail", "CardMissing", True)
    refused = site.json("apply", "--yes")
    host = refused["hosts"][machine.name]
    assert (refused["exit_code"], host["status"], host["changed"]) == (1, "refused", 0), host
    assert host["refusals"][0]["what"] == "1 NVIDIA card on the PCI bus, 2 expected"


def test_libraries_of_another_version_than_the_loaded_module_are_a_fail(vm: Callable[..., Machine], site: Site) -> None:
    machine = vm("node", cards=2)
    inventory.write(site, machine)
    other = " ".join(f"{POOL}/{name}_570.172.08-1_amd64.deb" for name in ("libcuda1", "libnvidia-ml1"))
    machine.exec(f"dpkg -i --force-depends --force-hold {other}", check=True, timeout=300)
    verdict = _tested(machine)
    assert (verdict["result"], verdict["reason"]) == ("fail", "DriverLibraryMismatch"), verdict
    assert verdict["detail"].startswith("module 580.95.05 is loaded, libnvidia-ml is 570.172.08 (")
    assert _told(machine, site)["detail"] == verdict["detail"]


def test_a_card_that_falls_off_the_bus_is_a_fail_with_the_drivers_own_xid(
    vm: Callable[..., Machine], site: Site
) -> None:
    machine = vm("node", cards=2)
    inventory.write(site, machine)
    assert _tested(machine)["result"] == "pass"
    machine.lose(1)
    verdict = _tested(machine)
    log = machine.exec("journalctl -b -k -o cat").stdout
    assert f"NVRM: Xid (PCI:{machine.address(1)[:-2]}): 79," in log, log
    assert (verdict["result"], verdict["reason"]) == ("fail", "CardLost"), verdict
    assert _checks(verdict)["xid"] == "FatalXid", verdict
    plan = site.json("plan")["hosts"][machine.name]
    assert any("the self-test of this boot says fail (CardLost" in note["text"] for note in plan["notes"]), plan
    told = _told(machine, site)
    assert (told["result"], told["checks"]["xid"]) == ("fail", "fail")


def test_a_driver_that_hangs_at_boot_is_unknown_and_kubelet_waits_for_it_no_longer_than_the_deadline(
    vm: Callable[..., Machine], site: Site
) -> None:
    machine = vm("node", cards=2)
    witness.install(machine)
    inventory.write(site, machine)
    machine.exec(f"sed -i 's/^DEADLINE=.*/DEADLINE={DEADLINE}/' /etc/provision/selftest.conf", check=True)
    # Whoever opens a card sleeps in the kernel, deaf to SIGKILL, as with firmware that doesn't answer.
    machine.put("/etc/modprobe.d/hang.conf", "options nvidia hang=1\n")
    machine.comes_back = False
    machine.reboot()
    machine.comes_back = True
    machine.power_on()
    machine.exec("for _ in $(seq 600); do [ -e /run/witness/kubelet ] && exit; sleep 0.5; done", timeout=320)

    kubelet, containerd = witness.seen(machine, "kubelet"), witness.seen(machine, "containerd")
    waited = kubelet.uptime - containerd.uptime
    assert kubelet.verdict is not None
    assert (kubelet.verdict["result"], kubelet.verdict["reason"]) == ("unknown", "NvidiaSmiTimeout"), kubelet.verdict
    assert "D" in machine.exec("ps -C nvidia-smi -o stat=").stdout, "the premise: it hangs in the kernel"
    # As an order of systemd's, persistenced alone would take three minutes until it is given up.
    assert waited < 3 * DEADLINE, f"kubelet started {waited:.0f} s after containerd"
    report = "/var/lib/provision/selftest-report.json"
    machine.exec(f"for _ in $(seq 100); do grep -q unchanged {report} && exit; sleep 0.3; done")
    told = _told(machine, site)
    assert (told["result"], told["report"]) == ("unknown", "unchanged"), told
