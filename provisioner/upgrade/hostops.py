"""What a roll does to the driver on a host: modules out and in, packages from the local cache, a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from provisioner.config.shipped import shipped
from provisioner.engine.compile import GOING_BACK, compile_action
from provisioner.engine.secrets import Secrets
from provisioner.engine.stage import take_stage_apart, time_of
from provisioner.facts.host import IdentityProbe
from provisioner.model.action import Action, Guarded, Packages, Reboot, Restore, Run, WriteFile
from provisioner.model.change import Change, Kind
from provisioner.model.upgrade import Result
from provisioner.quoting import quote, words
from provisioner.tasks.modules import DEVICE_PROGRAM
from provisioner.tasks.packaging.backend import HostFile
from provisioner.transport.executor import Executor
from provisioner.upgrade.holders import UNLOAD_ORDER, Held, held
from provisioner.upgrade.hoststep import SETTLE, Fence, Rows, Step, fields, host_script, last, opened, refused, scripted
from provisioner.upgrade.prefetch import Cache

PATIENCE = 10
"""Seconds to wait for processes of pods that were just evicted to let go of the cards."""
LOAD = ("nvidia", "nvidia_uvm", "nvidia_modeset")
"""What is loaded on every host (the task `modules` has the same default); what else was loaded before comes too."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """`result` OK, BUSY or FAILED; `modules` that were taken out before that, in order (nothing puts them back by
    itself: that is `load`); `held` who holds the cards when BUSY; `reason` what rmmod said."""

    result: Result
    modules: tuple[str, ...] = ()
    held: Held = field(default_factory=Held)
    reason: str = ""


def unload(fence: Fence, patience: int = PATIENCE) -> Step[Unloaded]:
    """Take all modules of the driver out of the kernel, in order, never by force. OK when none is loaded."""
    body = f"unload {patience} {words(UNLOAD_ORDER)}"
    return Step(
        "unload the modules",
        scripted(fence, ("holders", "unload"), body),
        2 * patience + 65.0 * len(UNLOAD_ORDER),
        _unloaded,
    )


def _unloaded(rows: Rows) -> Unloaded:
    word, reason = last(rows, "result")
    return Unloaded(
        result=Result(word),
        modules=tuple(name for (name,) in fields(rows, "unloaded")),
        held=held(rows),
        reason=reason.strip(),
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """`result` OK, RETRY_REBOOT or FAILED; `version` the kernel's now, "" without a module; `reason` for people."""

    result: Result
    version: str = ""
    reason: str = ""


def load(fence: Fence, target: str, modules: Sequence[str] = LOAD) -> Step[Loaded]:
    """Load the modules (those that `unload` took out too), make the device files, and look whether the kernel has
    `target`: modprobe ends with 0 when another version is loaded already. Right after a restart too."""
    body = load_line(modules)
    return Step("load the modules", scripted(fence, ("load",), body), 125.0 * 4, lambda rows: loaded(rows, target))


def load_line(modules: Sequence[str]) -> str:
    """The lines of a script that load them. A host that `modules` never set up gets its device files by the same
    program, which doesn't stay there."""
    program = (shipped("templates") / "modules" / "provision-nvidia-devices").read_text(encoding="utf-8")
    return f"""\
cat >"$_dir/devices" <<'@devices'
{program}@devices
chmod 700 "$_dir/devices"
_program={quote(DEVICE_PROGRAM)}; [ -x "$_program" ] || _program=$_dir/devices
load "$_program" {words(modules)}
"""


def loaded(rows: Rows, target: str) -> Loaded:
    """What the answer means when `target` was to be loaded."""
    version, disk = last(rows, "version")
    refusals = fields(rows, "refused")
    trouble = fields(rows, "devices")
    if version and version != target:
        if disk == target:
            reason = f"driver {version} is still loaded, {target} is on disk: only a restart replaces it"
            return Loaded(Result.RETRY_REBOOT, version, reason)
        return Loaded(Result.FAILED, version, f"driver {version} is loaded; the module on disk is {disk or 'missing'}")
    if refusals:
        name, said = refusals[0]
        reason = f"modprobe {name}: {said.strip() or 'no word'}"
        # A key that isn't enrolled and a file that isn't there are the same after a restart.
        final = "rejected" in said or "not found in directory" in said or "Exec format" in said
        return Loaded(Result.FAILED if final else Result.RETRY_REBOOT, version, reason)
    if trouble:
        return Loaded(Result.FAILED, version, f"device files: {trouble[0][0].strip()}")
    if not version:
        return Loaded(Result.FAILED, "", "no module says its version in /sys/module/nvidia/version")
    return Loaded(Result.OK, version)


@dataclass(frozen=True, slots=True)
class Installed:
    """`result` OK or FAILED; `output` what the package manager said (its end)."""

    result: Result
    output: str = ""

    @property
    def reason(self) -> str:
        """The last lines that say why, for a record; what the way back printed left out."""
        lines = [line.strip() for line in self.output.partition(GOING_BACK)[0].splitlines() if line.strip()]
        return "; ".join(lines[-3:])[-600:]


def install_actions(
    cache: Cache, pins: Sequence[HostFile], *, downgrade: bool, kernels: Sequence[str] = ()
) -> tuple[Action, ...]:
    """One guarded step: preferences that follow these packages, one transaction from the cache with its holds, and
    a module on disk for the running kernel and each of `kernels`. When it fails, preferences and holds are as they
    were; the packages are put back by installing the previous cache.

    `downgrade` says that going to older versions is meant.
    """
    names = tuple(package.name for package in cache.packages if package.role != "dependency")
    transaction = Packages(
        manager="apt",
        install=tuple((package.name, package.version) for package in cache.packages),
        remove=cache.remove,
        unhold=(*names, *cache.remove),
        hold=names,
        allow_downgrade=downgrade,
        cache=cache.folder,
    )
    build = (
        (Run(_on_kernels("build", cache.version, kernels), "build missing modules", timeout=1800.0),)
        if cache.driver
        else ()
    )
    return (
        Guarded(
            actions=(
                *(WriteFile(pin.path, pin.content, mode=pin.mode, keep_previous=True) for pin in pins),
                transaction,
                *build,
            ),
            check=_on_kernels("all_there", cache.version, kernels) if cache.driver else ":",
            undo=tuple(Restore(pin.path) for pin in pins),
            what=f"packages {cache.version}",
        ),
    )


def install(
    executor: Executor,
    fence: Fence,
    cache: Cache,
    pins: Sequence[HostFile],
    *,
    downgrade: bool = False,
    kernels: Sequence[str] = (),
) -> Installed:
    """Install what was fetched, forwards or back; nothing is downloaded. Done again it changes nothing.

    Raises as `Step.run` does.
    """
    actions = install_actions(cache, pins, downgrade=downgrade, kernels=kernels)
    change = Change("packages", f"packages {cache.version}", Kind.UPDATE, actions)
    secrets = Secrets()
    body = "".join(compile_action(action, secrets) for action in actions)
    script = f"{opened(fence)}_c1() (\nset -e\n{body})\nchange 1 _c1\necho @stage-done\n"
    done = executor.run(script, timeout=SETTLE + 120 + sum(time_of(action) for action in actions))
    refused(done, executor.host.name)
    stage = take_stage_apart((change,), done, secrets, executor.host.name)
    if stage.error is not None:
        raise stage.error
    outcome = stage.outcomes[0]
    return Installed(Result.OK if outcome.ok else Result.FAILED, outcome.output)


def _on_kernels(function: str, version: str, kernels: Sequence[str]) -> str:
    """A call of a function of load.sh, in a shell of its own."""
    return f'{host_script("load")}\n{function} {quote(version)} "$(uname -r)" {words(kernels)}\n'


@dataclass(frozen=True, slots=True)
class Restarting:
    """`boot` is the identity of the boot that answered; `begun` False: the host has restarted already."""

    boot: str
    begun: bool


def identify(fence: Fence) -> Step[str]:
    """The identity of the running boot (machine id, boot id, start of PID 1), to be kept before a restart."""
    body = f'_identity() (\n{IdentityProbe().script()})\nset -- $(_identity)\ntell boot "$1/$2/$3"'
    return Step("see which boot this is", scripted(fence, (), body), 30.0, lambda rows: last(rows, "boot")[0])


def restart(fence: Fence, boot: str) -> Step[Restarting]:
    """Restart the host if it still runs in `boot` (as `identify` told); detached, so that the answer arrives. A host
    that runs in another boot has been restarted already and is left alone. `engine.reboot.wait_for_boot` waits."""
    body = f"""\
_identity() (
{IdentityProbe().script()})
set -- $(_identity)
if [ "$1/$2/$3" = {quote(boot)} ]; then
tell restart "$1/$2/$3" yes
timeout 20 sync
{compile_action(Reboot("the new driver comes into effect"), Secrets())}
else tell restart "$1/$2/$3" no; fi"""
    return Step("restart the host", scripted(fence, (), body), 60.0, _restarting)


def _restarting(rows: Rows) -> Restarting:
    boot, begun = last(rows, "restart")
    return Restarting(boot, begun == "yes")
