"""The driver of a host changes: modules leave the kernel and others come, with a restart only where that's needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from provisioner.model.upgrade import Phase, RollOptions
from tests.lab.site import Site
from tests.roll.scene import FIRST, SECOND, installed, loaded, opened, until
from tests.vm import rolls
from tests.vm.kernel import kernels
from tests.vm.machine import Machine

OPTIONS = RollOptions(drain_timeout=30.0, reboot_timeout=180.0)


def test_a_busy_card_is_left_to_its_holder_then_the_driver_changes_without_a_restart(
    vm: Callable[..., Machine], site: Site
) -> None:
    machine = vm("node", cards=2)
    rolls.want(site, machine, FIRST)
    boot = machine.boot_id()
    pid = rolls.hold(machine, rolls.HOLDER)
    busy = site.json("upgrade-driver", "--drain-timeout", "3s", "--yes")
    record = busy["nodes"][machine.name]
    assert (busy["exit_code"], record["phase"]) == (1, "failed"), busy
    assert f"held by {pid} python3 /opt/train.py of training.service" in record["reason"]
    assert machine.exec(f"test -d /proc/{pid}").returncode == 0, "its work goes on"
    rolls.check_driver(machine, SECOND)
    assert machine.boot_id() == boot

    rolls.let_go(machine)
    done = site.json("upgrade-driver", "--yes")
    assert (done["exit_code"], done["nodes"][machine.name]["phase"]) == (0, "done"), done
    assert "rebooting" not in done["nodes"][machine.name]["seconds"]
    assert machine.boot_id() == boot
    rolls.check_works(machine, site, FIRST)


def test_a_roll_that_restarts_its_host_goes_on_in_the_next_boot(vm: Callable[..., Machine], site: Site) -> None:
    machine = vm("node", cards=2)
    rolls.want(site, machine, FIRST)
    before, boots = machine.boot_id(), machine.boots
    done = site.json("upgrade-driver", "--reboot", "always", "--yes")
    record = done["nodes"][machine.name]
    assert (done["exit_code"], record["phase"]) == (0, "done"), done
    assert "rebooting" in record["seconds"], record
    assert machine.boot_id() != before
    assert machine.boots == boots + 1, "one restart"
    rolls.check_works(machine, site, FIRST)


def test_an_old_module_that_stays_is_noticed_and_a_host_that_stays_away_is_gone_on_with(
    vm: Callable[..., Machine], site: Site
) -> None:
    """Somebody loads the old module again while the packages are installed, and keeps it in a way that no process
    shows: modprobe then ends with 0, and only a restart helps. From that the host doesn't come back at first."""
    machine = vm("node", cards=2)
    rolls.want(site, machine, FIRST)
    before = machine.boot_id()
    seen: list[str] = []

    def grab() -> None:
        rolls.hold(machine, rolls.HIDDEN_HOLDER)

    def look() -> None:
        assert machine.exec("modprobe nvidia").returncode == 0, "the premise of this test"
        seen.append(f"{loaded(machine)} in the kernel, {installed(machine)} on disk")
        machine.comes_back = False

    happens = {("phase-started", "installing"): grab, ("phase-started", "rebooting"): look}
    with opened(site, replace(OPTIONS, reboot_timeout=30.0), during=happens) as roller:
        report = roller.run(roller.prepare(roller.plan()))
    record = report.nodes[machine.name]
    assert seen == [f"{SECOND} in the kernel, {FIRST} on disk"], report
    assert (report.exit_code, record.phase) == (1, Phase.REBOOT), report
    assert "did not come back within" in record.reason
    until(lambda: not machine.running(), "the machine is off")

    machine.comes_back = True
    machine.start()
    after = machine.boot_id()
    assert after != before
    resumed = site.json("upgrade-driver", "--resume", "--yes")
    assert (resumed["exit_code"], resumed["nodes"][machine.name]["phase"]) == (0, "done"), resumed
    assert machine.boot_id() == after, "it had restarted: the boot's identity says so"
    rolls.check_works(machine, site, FIRST)


def test_a_module_that_does_not_load_leads_back_to_the_one_before(vm: Callable[..., Machine], site: Site) -> None:
    """The module on disk was built for a kernel of another make, as its vermagic says."""
    machine = vm("node", cards=2)
    _, newer = kernels()
    rolls.want(site, machine, FIRST)
    boot = machine.boot_id()
    package = f"/srv/lab-repo/nvidia/pool/main/linux-modules-nvidia-open-{newer.release}_{FIRST}-1_amd64.deb"
    module = f"./lib/modules/{newer.release}/updates/nvidia.ko"
    path = machine.exec("modinfo -F filename nvidia", check=True).stdout.strip()
    # A mere other release isn't enough: with checksums of its symbols such a module loads. The package's own file goes
    # elsewhere, for what it starts would load it before the roll does.
    divert = f"dpkg-divert --local --no-rename --divert {path}.packaged"
    spoiler = "LC_ALL=C sed 's/ mod_unload / mod_onload /'"
    spoil = f"{divert} --add {path} && dpkg-deb --fsys-tarfile {package} | tar -xO {module} | {spoiler} >{path}"
    mend = f"{divert} --remove {path} && rm -f {path}.packaged"
    happens = {
        ("phase-started", "installing"): lambda: spoiled(machine, spoil),
        ("phase-failed", "loading"): lambda: spoiled(machine, mend),
    }
    with opened(site, replace(OPTIONS, reboot="never"), during=happens) as roller:
        report = roller.run(roller.prepare(roller.plan()))
    record = report.nodes[machine.name]
    assert record.phase is Phase.ROLLED_BACK, record
    assert "modprobe nvidia" in record.reason
    assert "Exec format error" in record.reason, "what the kernel said"
    assert machine.boot_id() == boot
    rolls.want(site, machine, SECOND)
    rolls.check_works(machine, site, SECOND)


def spoiled(machine: Machine, command: str) -> None:
    machine.exec(command, check=True)
    assert machine.exec("modinfo -F version nvidia").stdout.strip() == FIRST, "only the kernel can tell"
