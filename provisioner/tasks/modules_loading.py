"""Loading the driver's modules and making their device files, on a host that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from provisioner.facts.driver import LoadedModules, ModulesOnDisk, ModulesOnDiskProbe, SmiProbe
from provisioner.facts.gpu import DeviceFiles, DeviceFilesProbe, DriverProcProbe, LoadedDriver, PciProbe
from provisioner.model.action import Reboot, Run
from provisioner.model.change import Change, Disruption, Finding, Kind, Note
from provisioner.model.fact import Facts
from provisioner.quoting import quote, words
from provisioner.tasks.bootfiles import PROGRAMS
from provisioner.tasks.context import Context

SUBJECT = "loaded modules"
NOVA = ("NovaCore", "nova-core", "nova")
"""What the kernel's nova driver calls itself in sysfs and in its messages (beclab/Olares#3963)."""
_LOAD = """\
for m in {modules}; do
    modprobe "$m"
    [ -d "/sys/module/$m" ] || {{ echo "modprobe $m loaded nothing, it runs: $(modprobe -n -v "$m")" >&2; exit 1; }}
done
"""
"""modprobe ends well too where an `install` line of the site takes the place of loading."""
MAKE_DEVICES = Run(quote(f"{PROGRAMS}/provision-nvidia-devices"), why="create the device files", timeout=120)


def loading(
    wanted: tuple[str, ...],
    keep_out: tuple[str, ...],
    facts: Facts,
    ctx: Context,
    before_reboot: tuple[str, ...],
    program: tuple[str, ...],
) -> Iterator[Finding]:
    """The change that loads what isn't loaded. `before_reboot` and `program`: subjects of changes that a reboot,
    and the making of device files, need first."""
    cards = [device for device in facts.get(PciProbe()) or () if device.is_card and device.driver != "vfio-pci"]
    loaded: Mapping[str, str] = facts.get(LoadedModules()) or {}
    missing = tuple(name for name in wanted if name not in loaded)
    if not cards or not missing:
        return
    held = sorted({card.driver for card in cards if card.driver in (*keep_out, *NOVA)})
    if held:
        number = sum(card.driver in held for card in cards)
        yield _reboot(f"{', '.join(held)} holds {number} of {len(cards)} cards until then", before_reboot)
        return
    disk = facts.get(ModulesOnDiskProbe()) or ModulesOnDisk("")
    running, there = loaded.get("nvidia"), disk.modules.get("nvidia")
    change = Change(
        subject=SUBJECT,
        summary=f"{', '.join(missing)} loaded{f' ({there.version})' if there else ''}, device files made",
        kind=Kind.RUN,
        actions=(Run(_LOAD.format(modules=words(missing)), why="load modules"), MAKE_DEVICES),
        requires=program,
    )
    if running is not None and there is not None and there.version != running:
        yield change.defer(
            f"{running} is loaded and {there.version} is on disk: needs a drained node",
            ctx.command("upgrade-driver", "--limit", ctx.host.name),
        )
    elif there is not None:
        yield change
    elif disk.other_kernels:
        others = ", ".join(disk.other_kernels)
        yield _reboot(f"the modules are there for kernel {others}, not for the running {disk.kernel}", before_reboot)
    elif facts.get(SmiProbe()) is None or ctx.earlier("driver"):
        # No module yet: an earlier stage of this run brings it.
        yield replace(change, provisional=True)
    else:
        yield Note(SUBJECT, f"there is no nvidia module for kernel {disk.kernel}: {', '.join(missing)} can't be loaded")


def _reboot(why: str, requires: tuple[str, ...]) -> Change:
    return Change(
        subject=SUBJECT,
        summary=f"reboot pending: {why}",
        kind=Kind.RUN,
        actions=(Reboot(why),),
        disruption=Disruption.REBOOT,
        disrupts="reboots the host",
        requires=requires,
    )


def device_files(facts: Facts, program: tuple[str, ...]) -> Iterator[Change]:
    """The change that makes missing or stale device files of a loaded driver."""
    driver = facts.get(DriverProcProbe())
    if driver is None or ("ModifyDeviceFiles", "0") in driver.params:
        return
    have = facts.need(DeviceFilesProbe())
    wrong = missing_devices(driver, have)
    if wrong:
        yield Change(
            subject="device files",
            summary=f"{', '.join(wrong)} created",
            kind=Kind.CREATE,
            actions=(MAKE_DEVICES,),
            requires=program,
        )


def missing_devices(driver: LoadedDriver, have: DeviceFiles) -> tuple[str, ...]:
    """Device files that must be there and aren't, have another major than the module, or lack their link in
    /dev/char."""
    paths = ["/dev/nvidiactl", *(f"/dev/nvidia{gpu.minor}" for gpu in driver.gpus if gpu.minor is not None)]
    uvm = have.major("nvidia-uvm")
    wrong = []
    for path in (*paths, "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"):
        file = have.file(path)
        stale = file is not None and "uvm" in path and uvm is not None and file.major != uvm
        if file is None or stale or f"{file.major}:{file.minor}" not in have.links:
            wrong.append(path)
    return tuple(wrong)
