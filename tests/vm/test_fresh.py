"""A host fresh from its installer, whose kernel gave the cards to nouveau, becomes a node with one reboot."""

from __future__ import annotations

from collections.abc import Callable

from tests.gpucheck.expectations import ALL as CLAIMS
from tests.lab.site import Site
from tests.vm import inventory, witness
from tests.vm.machine import Machine
from tests.vm.making import Making


def test_apply_says_that_a_reboot_is_pending_and_claims_nothing_more(making: Making) -> None:
    bare, waiting = making.bare, making.waiting
    assert (bare.drivers, bare.modules, bare.driver) == (["nouveau", "nouveau"], {"nouveau"}, "")
    first = making.first
    assert (first["status"], first["failed"], first["reboot_pending"]) == ("changed", 0, True), first
    reasons = {change["subject"]: (change["summary"], change["deferred"]) for change in first["waiting"]}
    assert set(reasons) == {"loaded modules", "self-test passed"}, first
    assert "reboot pending: nouveau holds 2 of 2 cards" in reasons["loaded modules"][0]
    assert reasons["loaded modules"][1]["command"].endswith(" --reboot")
    assert "nouveau holds" in reasons["self-test passed"][1]["reason"]
    assert waiting.boot == bare.boot, "nobody consented to a reboot"
    assert waiting.driver == "580.95.05-1", "the packages are there"
    assert (waiting.drivers, waiting.devices) == (["nouveau", "nouveau"], "")
    assert waiting.verdict != "pass"


def test_with_consent_apply_reboots_and_the_cards_are_the_drivers(making: Making) -> None:
    second, done = making.second, making.done
    assert (second["status"], second["deferred"], second["reboot_pending"]) == ("changed", 0, False), second
    assert done.boot != making.waiting.boot
    assert done.drivers == ["nvidia", "nvidia"]
    assert done.modules == {"nvidia", "nvidia_uvm", "nvidia_modeset"}, "and no nouveau"
    order = [making.log.find(text) for text in ("NVRM: loading", "nvidia-uvm: Loaded the UVM driver")]
    assert -1 < order[0] < order[1], making.log
    assert done.verdict == "pass"


def test_device_files_and_a_passed_self_test_are_there_before_containerd_and_kubelet(making: Making) -> None:
    assert set(making.containerd.devices) >= witness.DEVICES
    assert set(making.kubelet.devices) >= witness.DEVICES
    verdict = making.kubelet.verdict
    assert verdict is not None, "kubelet started before the self-test of this boot had ended"
    assert (verdict["result"], len(verdict["cards"])) == ("pass", 2), verdict


def test_the_initramfs_that_boots_keeps_nouveau_out_and_the_old_one_is_kept(making: Making) -> None:
    assert making.images == ["1", "0"]


def test_another_apply_changes_nothing_with_one_connection_and_one_execution(
    vm: Callable[..., Machine], site: Site
) -> None:
    machine = vm("node", cards=2)
    inventory.write(site, machine)
    machine.clear_sshd_log()
    again = site.json("apply", "--yes")["hosts"][machine.name]
    assert (again["status"], again["changed"], again["deferred"]) == ("ok", 0, 0), again
    assert (machine.connections(), machine.executions()) == (1, 1), "counted by sshd"


def test_the_stand_in_modules_keep_to_what_they_claim_of_a_card(vm: Callable[..., Machine]) -> None:
    """The same claims that `make gpu-check` compares with a real card."""
    machine = vm("node", cards=2)
    said = {claim.what: machine.exec(f"{{ {claim.command}\n}} 2>&1").stdout for claim in CLAIMS}
    assert {claim.what: said[claim.what] for claim in CLAIMS if not claim.holds(said[claim.what])} == {}
