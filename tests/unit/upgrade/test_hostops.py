"""Steps on a host, by their real scripts on a machine made of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.engine.secrets import Secrets
from provisioner.engine.stage import StageRun, run_stage
from provisioner.errors import Disconnected, HostLocked, LeaseLost
from provisioner.model.action import Guarded, Packages, Restore, WriteFile
from provisioner.model.change import Change, Kind
from provisioner.model.lock import LockedPackage
from provisioner.model.upgrade import Result
from provisioner.tasks.packaging.backend import HostFile
from provisioner.transport.executor import Completed
from provisioner.transport.fake import FakeExecutor
from provisioner.upgrade import hostops
from provisioner.upgrade.holders import look
from provisioner.upgrade.hoststep import Fence, guard, release
from provisioner.upgrade.prefetch import Cache
from tests.unit.upgrade.machine import FENCE, Machine

OLD, NEW = "570.158.01", "580.95.05"


def driver(machine: Machine, *, uvm: int = 0, nvidia: int = 2) -> None:
    """A loaded driver as the kernel shows it, with an rmmod that works."""
    machine.module("nvidia", version=OLD, refcnt=nvidia, holders=("nvidia_uvm", "nvidia_modeset"))
    machine.module("nvidia_uvm", version=OLD, refcnt=uvm)
    machine.module("nvidia_modeset", version=OLD, refcnt=1, holders=("nvidia_drm",))
    machine.module("nvidia_drm", version=OLD)
    modules = machine.root / "sys/module"
    machine.command(
        "rmmod",
        f'note rmmod "$1"; c=$(cat {modules}/"$1"/refcnt); h=$(ls {modules}/"$1"/holders | wc -l)\n'
        f'[ "$c" -eq 0 ] || {{ echo "rmmod: ERROR: Module $1 is in use" >&2; exit 1; }}\n'
        f'rm -r {modules}/"$1"; for u in {modules}/*/holders/"$1"; do [ -e $u ] || continue; rm $u\n'
        "f=${u%/holders/*}/refcnt; echo $(($(cat $f) - 1)) >$f; done",
    )


class TestFence:
    def test_a_larger_token_is_kept_and_a_smaller_one_refused(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        machine.do(look(FENCE))
        assert machine.state("token").read_text() == "7 roll-1\n"
        machine.do(release(FENCE))
        machine.do(look(replace(FENCE, run="roll-2", token=8)))
        assert machine.state("token").read_text() == "8 roll-2\n"
        with pytest.raises(LeaseLost, match="refuses this roll") as lost:
            machine.do(look(FENCE))
        assert "roll 8 has worked on this host; this one is 7" in lost.value.why
        assert machine.state("token").read_text() == "8 roll-2\n"

    def test_the_lock_of_a_roll_that_lost_its_lease_goes_though_its_controller_lives(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        machine.do(look(FENCE))
        later = replace(FENCE, run="roll-2", token=8)
        with pytest.raises(HostLocked):
            machine.do(look(later))
        machine.do(look(replace(later, leased=True)))
        with pytest.raises(LeaseLost, match="refuses this roll"):
            machine.do(look(FENCE))

    def test_what_apply_deferred_is_not_done_by_a_roll_that_a_later_one_took_over(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        target = tmp_path / "written"
        change = Change("a file", "new file", Kind.CREATE, (WriteFile(str(target), "text"),))

        def stage(fence: Fence) -> StageRun:
            number = (tmp_path / "run/generation").read_text().strip()
            return run_stage(
                machine,
                [change],
                run=fence.run,
                who=fence.who,
                generation=number,
                secrets=Secrets(),
                guard=guard(fence),
            )

        later = replace(FENCE, run="roll-2", token=8)
        machine.do(look(later))
        machine.do(release(later))
        refused = stage(FENCE)
        assert isinstance(refused.error, LeaseLost)
        assert "roll 8 has worked on this host; this one is 7" in refused.error.why
        assert not target.exists()
        done = stage(later)
        assert (done.error, [each.ok for each in done.outcomes]) == (None, [True])
        assert target.read_text() == "text"

    def test_a_lease_ends_no_lock_of_another_command(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        machine.do(look(replace(FENCE, run="apply-1")))
        machine.state("token").write_text("7 roll-1\n")
        with pytest.raises(HostLocked):
            machine.do(look(replace(FENCE, run="roll-2", token=8, leased=True)))

    @pytest.mark.parametrize("content", ["", "seven\n", "-1\n"])
    def test_a_token_that_cant_be_read_refuses_everything(self, tmp_path: Path, content: str) -> None:
        machine = Machine(tmp_path)
        machine.state("token").write_text(content)
        with pytest.raises(LeaseLost) as lost:
            machine.do(look(FENCE))
        assert "holds no number" in lost.value.why

    def test_a_refused_step_does_nothing(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        driver(machine)
        machine.state("token").write_text("9\n")
        with pytest.raises(LeaseLost):
            machine.do(hostops.unload(FENCE))
        assert machine.calls == []
        assert not (tmp_path / "run/lock").exists()

    def test_another_run_holds_the_host(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        machine.do(look(FENCE))
        with pytest.raises(HostLocked, match="being changed by another run") as held:
            machine.do(look(replace(FENCE, run="roll-2", token=8)))
        assert "ops@desk" in held.value.why

    def test_an_answer_that_breaks_off_is_no_answer(self) -> None:
        half = FakeExecutor("gpu01", [Completed(0, b"unloaded\tnvidia_uvm\n", b"")])
        with pytest.raises(Disconnected, match="unload the modules didn't run to its end"):
            hostops.unload(FENCE).run(half)


class TestUnload:
    def test_in_order_and_nothing_by_force(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        driver(machine)
        done = machine.do(hostops.unload(FENCE, patience=0))
        assert done.result is Result.OK
        assert done.modules == ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
        assert machine.calls == [f"rmmod {name}" for name in done.modules]

    def test_nothing_loaded_is_fine(self, tmp_path: Path) -> None:
        assert Machine(tmp_path).do(hostops.unload(FENCE, patience=0)).result is Result.OK

    def test_a_user_that_no_process_shows(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        driver(machine, nvidia=3)
        done = machine.do(hostops.unload(FENCE, patience=0))
        assert done.result is Result.BUSY
        assert done.modules == ("nvidia_uvm", "nvidia_drm", "nvidia_modeset")
        assert done.held.text() == "held by 1 users of module nvidia that no process shows"

    def test_a_module_of_somebody_else_keeps_all_where_it_is(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        driver(machine, nvidia=3)
        (tmp_path / "sys/module/nvidia/holders/foreign_rdma").touch()
        done = machine.do(hostops.unload(FENCE, patience=0))
        assert done.result is Result.BUSY
        assert machine.calls == []
        assert "by module foreign_rdma, which isn't NVIDIA's" in done.held.text()

    def test_a_refusal_for_another_reason(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path)
        driver(machine)
        machine.command("rmmod", "echo 'rmmod: ERROR: Operation not permitted' >&2; exit 1")
        done = machine.do(hostops.unload(FENCE, patience=0))
        assert done.result is Result.FAILED
        assert "Operation not permitted" in done.reason


class TestLoad:
    @staticmethod
    def machine(root: Path, *, modprobe: str, disk: str = NEW) -> Machine:
        machine = Machine(root, {"modprobe": modprobe, "modinfo": f"echo {disk}"})
        return machine

    def test_modprobe_that_says_yes_to_the_old_driver(self, tmp_path: Path) -> None:
        machine = self.machine(tmp_path, modprobe="exit 0")
        driver(machine)
        done = machine.do(hostops.load(FENCE, NEW))
        assert done.result is Result.RETRY_REBOOT
        assert done.reason == f"driver {OLD} is still loaded, {NEW} is on disk: only a restart replaces it"

    def test_a_module_on_disk_that_is_another(self, tmp_path: Path) -> None:
        machine = self.machine(tmp_path, modprobe="exit 0", disk=OLD)
        driver(machine)
        done = machine.do(hostops.load(FENCE, NEW))
        assert done.result is Result.FAILED
        assert done.reason == f"driver {OLD} is loaded; the module on disk is {OLD}"

    @pytest.mark.parametrize(
        ("said", "result"),
        [
            ("ERROR: could not insert 'nvidia': Key was rejected by service", Result.FAILED),
            ("FATAL: Module nvidia not found in directory /lib/modules/6.1", Result.FAILED),
            ("ERROR: could not insert 'nvidia': No such device", Result.RETRY_REBOOT),
        ],
    )
    def test_what_a_restart_can_mend(self, tmp_path: Path, said: str, result: Result) -> None:
        machine = self.machine(tmp_path, modprobe=f'echo "modprobe: {said}" >&2; exit 1')
        done = machine.do(hostops.load(FENCE, NEW))
        assert done.result is result
        assert said in done.reason

    def test_what_was_unloaded_comes_back(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, {"modinfo": f"echo {NEW}"})
        driver(machine)
        machine.do(hostops.unload(FENCE, patience=0))
        machine.command(
            "modprobe",
            f'note modprobe "$1"; mkdir -p {tmp_path}/sys/module/"$1"; echo {NEW} >{tmp_path}/sys/module/"$1"/version',
        )
        machine.do(hostops.load(FENCE, NEW))
        loads = [call.split()[1] for call in machine.calls if call.startswith("modprobe")]
        assert loads == ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]


CACHE = Cache(
    NEW,
    "driver",
    f"/var/lib/provision/packages/{NEW}",
    packages=(
        LockedPackage("libcuda1", f"{NEW}-1", "amd64", "driver"),
        LockedPackage("gcc", "4:12.2.0-3", "amd64", "dependency"),
    ),
    remove=("nvidia-driver-570",),
)
PINS = (HostFile("/etc/apt/preferences.d/provision-nvidia", "Package: libcuda1\n"),)


class TestInstall:
    def test_one_guarded_transaction_without_repositories(self) -> None:
        (guarded,) = hostops.install_actions(CACHE, PINS, downgrade=True)
        assert isinstance(guarded, Guarded)
        pin, packages, _ = guarded.actions
        assert isinstance(pin, WriteFile)
        assert pin.keep_previous
        assert isinstance(packages, Packages)
        assert packages.cache == CACHE.folder
        assert packages.lists == ()
        assert packages.install == (("libcuda1", f"{NEW}-1"), ("gcc", "4:12.2.0-3"))
        assert packages.hold == ("libcuda1",), "dependencies aren't held"
        assert packages.unhold == ("libcuda1", "nvidia-driver-570")
        assert packages.allow_downgrade
        assert guarded.undo == (Restore(PINS[0].path),)

    def test_downgrades_only_when_meant(self) -> None:
        (guarded,) = hostops.install_actions(CACHE, PINS, downgrade=False)
        assert isinstance(guarded, Guarded)
        packages = guarded.actions[1]
        assert isinstance(packages, Packages)
        assert not packages.allow_downgrade

    def test_a_module_that_is_not_on_disk_afterwards_is_a_failure(self, tmp_path: Path) -> None:
        """apt ends with 0 where dkms had no headers."""
        empty = replace(CACHE, packages=(), remove=())
        machine = Machine(tmp_path, {"modinfo": f"echo {OLD}", "dkms": "exit 0", "apt-mark": "exit 0"})
        done = hostops.install(machine, FENCE, empty, ())
        assert done.result is Result.FAILED
        assert f"is {OLD}, not {NEW}" in done.reason
        machine.command("modinfo", f"echo {NEW}")
        assert hostops.install(machine, FENCE, empty, ()).result is Result.OK

    def test_the_next_kernel_counts_too(self, tmp_path: Path) -> None:
        empty = replace(CACHE, packages=(), remove=())
        modinfo = f'case "$2" in 6.1.0-99) exit 1 ;; *) echo {NEW} ;; esac'
        machine = Machine(tmp_path, {"modinfo": modinfo, "modprobe": "exit 1", "dkms": "exit 0", "apt-mark": "exit 0"})
        done = hostops.install(machine, FENCE, empty, (), kernels=("6.1.0-99",))
        assert done.result is Result.FAILED
        assert "for kernel 6.1.0-99 is missing" in done.reason


class TestRestart:
    def test_a_host_in_another_boot_is_left_alone(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, {"systemctl": "note systemctl $*", "reboot": "note reboot", "sync": "exit 0"})
        boot = machine.do(hostops.identify(FENCE))
        assert boot.count("/") == 2
        done = machine.do(hostops.restart(FENCE, boot + "0"))
        assert not done.begun
        assert done.boot == boot
        assert machine.calls == []
