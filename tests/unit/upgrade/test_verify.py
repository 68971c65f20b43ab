"""What proves that a driver works, and what is put back before it is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.facts.driver import (
    LibrariesProbe,
    Library,
    LoadedModules,
    Module,
    ModulesOnDisk,
    ModulesOnDiskProbe,
    Smi,
    SmiProbe,
)
from provisioner.facts.gpu import DeviceFilesProbe, DriverProcProbe, PciDevice, PciProbe
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.facts.selftest import SelfTest, SelfTestProbe
from provisioner.model.fact import Fact, Facts, Known, Probe, Unknown
from provisioner.model.upgrade import Result
from provisioner.tasks.proof import facts_of
from provisioner.upgrade.clients import Clients
from provisioner.upgrade.hostops import Loaded
from provisioner.upgrade.hoststep import Step, scripted
from provisioner.upgrade.layout import Card, Layout, Spec, Visible, VisibleProbe, layout, remember
from provisioner.upgrade.verify import Proof, Verified, judge
from tests.unit.facts.shell import ask, put
from tests.unit.upgrade.machine import FENCE, Machine

OLD, NEW = "570.158.01", "580.95.05"
ONE, TWO = Card("GPU-1", "NVIDIA H100"), Card("GPU-2", "NVIDIA H100")
BOTH = Layout((ONE, TWO), {"/etc/cdi/nvidia.yaml": Spec((NEW,), ("0", "1", "all"))})
GOOD: dict[Probe[Any], Any] = {
    IdentityProbe(): Identity("machine", "boot", 1, systemd=True),
    LoadedModules(): {"nvidia": NEW, "nvidia_uvm": NEW},
    ModulesOnDiskProbe(): ModulesOnDisk("6.1", {"nvidia": Module("nvidia", NEW)}),
    LibrariesProbe(): tuple(
        Library(name, f"/usr/lib/{name}.so.{NEW}", NEW, 100, True) for name in ("libcuda", "libnvidia-ml")
    ),
    SmiProbe(): Smi("/usr/bin/nvidia-smi", "nvidia-utils", NEW),
    PciProbe(): tuple(PciDevice(f"0000:4{n}:00.0", 0x2331, "0302", "nvidia") for n in (1, 2)),
    DriverProcProbe(): None,
    DeviceFilesProbe(): None,
    SelfTestProbe(): SelfTest("pass", version="v1", trusted="v1"),
}
PROOF = Proof(Loaded(Result.OK, NEW), Clients(), BOTH, BOTH, (0, NEW), None, (0, "GPU self-test: pass"))


def verdict(proof: Proof = PROOF, facts: dict[Probe[Any], Any] | None = None, cards: int | None = 2) -> Verified:
    return judge(facts_of({**GOOD, **(facts or {})}), proof, NEW, cards=cards)


class TestJudge:
    def test_all_is_well(self) -> None:
        assert verdict().result is Result.OK
        assert verdict().reason == ""

    def test_a_driver_that_only_a_restart_replaces(self) -> None:
        told = replace(PROOF, loaded=Loaded(Result.RETRY_REBOOT, OLD, "still loaded"))
        assert verdict(told).result is Result.RETRY_REBOOT

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"now": replace(BOTH, cards=(ONE,))}, "cards: 1 of 2 are there (2 on the bus)"),
            ({"now": Layout((), BOTH.specs, "nvidia-smi -L ended with 15: GPU is lost")}, "GPU is lost"),
            ({"smi": (18, "Driver/library version mismatch")}, "nvidia-smi: status 18: Driver/library"),
            ({"smi": (0, OLD)}, f"nvidia-smi: {OLD}"),
            ({"fabric": (OLD, "active")}, f"fabric manager: {OLD}, active"),
            ({"fabric": (NEW, "failed")}, f"fabric manager: {NEW}, failed"),
            ({"daemons": Clients(failed=(("nvidia-persistenced.service", "no"),))}, "nvidia-persistenced.service: no"),
            ({"troubles": ("CDI: ERROR_DRIVER_NOT_LOADED",)}, "ERROR_DRIVER_NOT_LOADED"),
            ({"self_test": (124, "")}, "self-test: it ended with 124"),
            (
                {"now": replace(BOTH, specs={"/etc/cdi/nvidia.yaml": Spec((OLD,), ("0", "1", "all"))})},
                f"CDI: /etc/cdi/nvidia.yaml names libraries of {OLD}",
            ),
            ({"now": replace(BOTH, specs={})}, "CDI: /etc/cdi/nvidia.yaml was there before and isn't now"),
            (
                {"now": replace(BOTH, specs={"/etc/cdi/nvidia.yaml": Spec((NEW,), ("0", "all"))})},
                "CDI: /etc/cdi/nvidia.yaml no longer has 1",
            ),
        ],
    )
    def test_what_the_proof_says(self, changed: dict[str, Any], said: str) -> None:
        found = verdict(replace(PROOF, **changed))
        assert found.result is Result.FAILED
        assert said in found.reason

    @pytest.mark.parametrize(
        ("facts", "said"),
        [
            ({LoadedModules(): {"nvidia": NEW, "nvidia_uvm": OLD}}, f"modules: nvidia_uvm {OLD}"),
            ({ModulesOnDiskProbe(): ModulesOnDisk("6.1")}, "module on disk: missing"),
            ({LibrariesProbe(): ()}, "libraries: "),
            (
                {SelfTestProbe(): SelfTest("fail", "FatalXid", "Xid 79", "v1", trusted="v1")},
                "self-test: fail (FatalXid",
            ),
        ],
    )
    def test_what_the_host_shows(self, facts: dict[Probe[Any], Any], said: str) -> None:
        found = verdict(facts=facts)
        assert found.result is Result.FAILED
        assert said in found.reason

    def test_a_new_self_test_only_observes(self) -> None:
        found = verdict(facts={SelfTestProbe(): SelfTest("fail", "Odd", "", "v2", trusted="v1")})
        assert found.result is Result.OK
        assert [each.ok for each in found.evidence if each.name == "self-test"] == [None]

    def test_unknown_is_never_taken_for_good(self) -> None:
        values: dict[Probe[Any], Fact[Any]] = dict(facts_of(GOOD).values)
        values[LibrariesProbe()] = Unknown("ldconfig -p fails")
        found = judge(Facts("host", values), PROOF, NEW)
        assert found.result is Result.FAILED
        assert "driver libraries: can't be told: ldconfig -p fails" in found.reason

    def test_as_many_cards_as_before_where_no_number_is_given(self) -> None:
        told = replace(PROOF, now=replace(BOTH, cards=(ONE,)))
        assert verdict(told, cards=None).result is Result.FAILED
        assert verdict(replace(told, before=replace(BOTH, cards=(ONE,))), cards=None).result is Result.OK

    def test_mig_instances(self) -> None:
        divided = replace(BOTH, cards=(replace(ONE, mig=("1g.10gb", "3g.40gb")), TWO))
        lost = verdict(replace(PROOF, before=divided))
        assert lost.result is Result.FAILED
        assert "MIG: GPU-1 had 1g.10gb 3g.40gb, has none" in lost.reason
        turned = replace(BOTH, cards=(replace(ONE, mig=("3g.40gb", "1g.10gb")), TWO))
        assert verdict(replace(PROOF, before=divided, now=turned)).result is Result.OK


SMI_L = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-1)
  MIG 1g.5gb      Device  1: (UUID: MIG-2)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""
SPEC = """---
cdiVersion: 0.5.0
containerEdits:
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{0}
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- name: all
kind: nvidia.com/gpu
"""


def step(body: str) -> Step[list[tuple[str, ...]]]:
    return Step("try", scripted(FENCE, ("layout",), body), 30.0, list)


class TestLayout:
    def test_kept_once_a_roll(self, tmp_path: Path) -> None:
        host = Machine(tmp_path, {"nvidia-smi": f"cat {tmp_path}/smi"})
        host.module("nvidia", version=OLD)
        (tmp_path / "smi").write_text(SMI_L)
        (tmp_path / "etc/cdi/nvidia.yaml").write_text(SPEC.format(OLD))
        (tmp_path / "etc/cdi/other.yaml").write_text("kind: vendor.com/net\n")
        first = host.do(remember(FENCE))
        assert first.cards == (
            Card("GPU-aaaa", "NVIDIA A100-SXM4-40GB", ("3g.20gb", "1g.5gb")),
            Card("GPU-bbbb", "NVIDIA A100-SXM4-40GB"),
        )
        assert first.specs == {f"{tmp_path}/etc/cdi/nvidia.yaml": Spec((OLD,), ("0", "all"))}
        (tmp_path / "smi").write_text("No devices were found\n")
        assert host.do(remember(FENCE)) == first
        assert host.do(remember(replace(FENCE, run="roll-1"))).cards == first.cards

    def test_a_listing_that_fails_is_no_empty_one(self, tmp_path: Path) -> None:
        host = Machine(tmp_path, {"nvidia-smi": "echo 'GPU is lost' >&2; exit 15"})
        host.module("nvidia", version=OLD)
        assert host.do(remember(FENCE)).trouble == "nvidia-smi -L ended with 15: GPU is lost"

    def test_mig_instances_are_made_again(self, tmp_path: Path) -> None:
        smi = f'case "$*" in -L) cat {tmp_path}/smi ;; *) note "$@" ;; esac'
        host = Machine(tmp_path, {"nvidia-smi": smi, "systemctl": "exit 1"})
        host.module("nvidia", version=OLD)
        (tmp_path / "smi").write_text(SMI_L)
        host.do(remember(FENCE))
        (tmp_path / "smi").write_text("".join(line + "\n" for line in SMI_L.splitlines() if line.startswith("GPU")))
        host.do(step("mig_back"))
        assert host.calls == ["-i GPU-aaaa -mig 1", "mig -i GPU-aaaa -cgi 3g.20gb,1g.5gb -C"]

    def test_a_stale_spec_is_generated_anew_in_its_place(self, tmp_path: Path) -> None:
        ctk = (
            f'for a; do case $a in --output=*) sed s/{OLD}/{NEW}/ {tmp_path}/made >"${{a#*=}}" ;; esac; done; note ctk'
        )
        host = Machine(tmp_path, {"nvidia-ctk": ctk, "nvidia-smi": "exit 9"})
        (tmp_path / "made").write_text(SPEC.format(OLD))
        stale = tmp_path / "etc/cdi/nvidia.yaml"
        stale.write_text(SPEC.format(OLD))
        stale.chmod(0o640)
        fresh = tmp_path / "etc/cdi/fresh.yaml"
        fresh.write_text(SPEC.format(NEW))
        host.do(step(f"specs_fresh {NEW}"))
        assert host.calls == ["ctk"]
        assert NEW in stale.read_text()
        assert stale.stat().st_mode & 0o777 == 0o640
        rows = host.do(step("specs_now now"))
        assert layout(rows, "now").specs[str(stale)] == Spec((NEW,), ("0", "all"))


def test_what_a_plan_sees_without_asking_a_command(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "/etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n",
            "/var/run/cdi/m.json": '{"kind": "nvidia.com/mig"}',
            "/etc/cdi/net.yaml": "kind: vendor.com/net\n",
            "/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access": "",
            "/proc/driver/nvidia/capabilities/gpu0/mig/gi2/access": "",
            "/proc/driver/nvidia/capabilities/gpu0/mig/config": "",
        },
    )
    found = ask(VisibleProbe(), tmp_path)
    assert found == Known(Visible((f"{tmp_path}/etc/cdi/nvidia.yaml", f"{tmp_path}/var/run/cdi/m.json"), 2))
