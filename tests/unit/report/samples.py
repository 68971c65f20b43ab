"""Plans and results as a site would see them."""

from __future__ import annotations

from provisioner.model.action import Guarded, Packages, Service, WriteFile
from provisioner.model.change import Change, Deferral, Disruption, Kind, Note, Refusal
from provisioner.model.plan import HostPlan, Plan
from provisioner.model.result import HostResult, Outcome, RunResult, Status

CONFIG = "/etc/containerd/config.toml"

RUNTIME = Change(
    subject=CONFIG,
    summary="nvidia handler as default",
    kind=Kind.UPDATE,
    actions=(
        Guarded(
            actions=(WriteFile(CONFIG, "version = 2\n", keep_previous=True), Service("containerd", state="restarted")),
            check="ctr plugins ls",
            undo=(Service("containerd", state="restarted"),),
        ),
    ),
    before="version = 2\n\n[plugins]\n",
    after='version = 2\n\n[plugins]\ndefault_runtime_name = "nvidia"\n',
    disruption=Disruption.SERVICE,
    disrupts="restarts containerd",
    task="containerd",
    stage="containerd",
)
DRIVER = Change(
    subject="packages",
    summary="nvidia-open 570.172.08 → 580.95.05",
    kind=Kind.UPDATE,
    actions=(Packages("apt", install=(("nvidia-open", "580.95.05-1"), ("libcuda1", None)), hold=("nvidia-open",)),),
    deferred=Deferral("needs a drained node", "provision upgrade-driver inventories/prod.toml"),
    task="driver",
    stage="packages",
)
MODULES = Change(
    subject="/etc/modules-load.d/nvidia.conf",
    summary="",
    kind=Kind.CREATE,
    actions=(WriteFile("/etc/modules-load.d/nvidia.conf", "nvidia\n", mode=0o644),),
    after="nvidia\nnvidia_uvm\n",
    task="modules",
    stage="modules",
)
SECURE_BOOT = Refusal(
    subject="secureboot",
    what="Secure Boot is on and the module's signer isn't enrolled",
    why="the kernel would refuse the module",
    remedy="enrol it with mokutil --import FILE, restart, plan again",
    task="preflight",
    stage="preflight",
)
UNREACHABLE = "gpu18 can't be reached\n  10.0.0.18:22 refuses the connection\n  check address and port in the inventory"


def host(number: int, *changes: Change, **more: object) -> HostPlan:
    """The plan of gpuNN."""
    return HostPlan(f"gpu{number:02d}", changes, **more)  # type: ignore[arg-type]


def plan(*hosts: HostPlan) -> Plan:
    """A plan of the default playbook."""
    return Plan("gpu-node", "inventories/prod.toml", ("preflight", "packages", "modules", "containerd"), hosts)


def site() -> Plan:
    """Sixteen hosts that need the same, one that needs more, and one of each kind that can't be changed."""
    alike = [host(number, RUNTIME, DRIVER) for number in range(1, 17) if number != 7]
    return plan(
        *alike,
        host(7, RUNTIME, DRIVER, MODULES),
        host(17, RUNTIME, refusals=(SECURE_BOOT,)),
        host(18, error=UNREACHABLE),
        host(19, unknown=(("packages", "driver", "can't tell packages: dpkg \x1b[2J broke"),)),
        host(20, notes=(Note("kernel", "6.1.0-20 is older than the installed 6.1.0-22", "preflight", "preflight"),)),
        host(21),
    )


def result(*hosts: HostResult, exit_code: int = 0, interrupted: bool = False) -> RunResult:
    """A run of `apply`."""
    return RunResult(
        run="20261130T164205-3f9a",
        kind="apply",
        hosts={each.host: each for each in hosts},
        exit_code=exit_code,
        journal="/home/ada/.local/state/provision/prod/20261130T164205-3f9a/journal.jsonl",
        seconds=31.5,
        interrupted=interrupted,
    )


def changed(number: int, seconds: float = 9.0) -> HostResult:
    """A host where the runtime was changed and the driver waits."""
    return HostResult(
        f"gpu{number:02d}",
        Status.CHANGED,
        (Outcome(RUNTIME, ok=True),),
        deferred=(DRIVER,),
        execs=3,
        connections=1,
        seconds=seconds,
    )


def broken(number: int, output: str) -> HostResult:
    """A host where containerd didn't come up."""
    failed = Outcome(RUNTIME, ok=False, output=output, restored="restored", seconds=4.0)
    return HostResult(
        f"gpu{number:02d}",
        Status.FAILED,
        (Outcome(MODULES, ok=True), failed),
        message=f"{RUNTIME.id}: containerd isn't active (restored)",
        execs=3,
        connections=1,
        seconds=12.2,
    )
