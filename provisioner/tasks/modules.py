"""Task `modules`: the driver's modules loaded, their device files there, the kernel's own drivers kept out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provisioner.facts.driver import LoadedModules, ModulesOnDiskProbe, SmiProbe
from provisioner.facts.gpu import DeviceFilesProbe, DriverProcProbe, PciProbe
from provisioner.facts.host import IdentityProbe
from provisioner.facts.initramfs import InitramfsProbe
from provisioner.facts.services import UnitProbe
from provisioner.model.change import Change, Finding
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.tasks.bootfiles import PROGRAMS, UNITS, BootFile, enabling, file_changes, link_probe, subjects
from provisioner.tasks.context import Context
from provisioner.tasks.modules_daemons import FABRIC_MANAGER, PERSISTENCED, fabric_manager, persistence
from provisioner.tasks.modules_initramfs import initramfs
from provisioner.tasks.modules_loading import device_files, loading
from provisioner.tasks.task import Task, task

BLACKLIST = "/etc/modprobe.d/provision-nvidia.conf"
MODULES_LOAD = "/etc/modules-load.d/provision-nvidia.conf"
UDEV_RULE = "/etc/udev/rules.d/71-provision-nvidia.rules"
DEVICE_UNIT = "provision-nvidia-devices.service"
DEVICE_PROGRAM = f"{PROGRAMS}/provision-nvidia-devices"


@task("modules")
class Modules(Task):
    """The driver's modules, their device files and daemons, now and at every boot, before any container.

    `load` are loaded in this order; `keep_out` are the kernel's drivers for the same cards, kept out of the running
    system and of the initramfs, which is built anew only when it is older than that rule. Loading is done now where
    nothing else holds the cards; a card held by another driver waits for a reboot, another loaded version for the
    rolling upgrade. The fabric manager runs exactly where an NVSwitch is; `gpu.persistence = false` leaves the
    persistence daemon alone. Debian's and Ubuntu's driver packages bring rules of their own: ours stand beside them.

        [[stages.tasks]]
        task = "modules"
    """

    load: tuple[str, ...] = ("nvidia", "nvidia_uvm", "nvidia_modeset")
    keep_out: tuple[str, ...] = ("nouveau", "nova_core", "nova_drm")

    def files(self) -> tuple[BootFile, ...]:
        """What lies on the host; the rule for modprobe last, so that it is the newest."""
        directory = (("directory", PROGRAMS),)
        return (
            BootFile(MODULES_LOAD, "modules/modules-load.conf", values=(("modules", self.load),)),
            BootFile(DEVICE_PROGRAM, "modules/provision-nvidia-devices", mode=0o755),
            BootFile(f"{UNITS}/{DEVICE_UNIT}", f"modules/{DEVICE_UNIT}", values=directory),
            BootFile(UDEV_RULE, "modules/71-provision-nvidia.rules", values=(("systemctl", "/bin/systemctl"),)),
            BootFile(BLACKLIST, "modules/blacklist.conf", values=(("blacklist", self.keep_out),)),
        )

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from (IdentityProbe(), PciProbe(), LoadedModules(), ModulesOnDiskProbe(), SmiProbe())
        yield from (DriverProcProbe(), DeviceFilesProbe(), InitramfsProbe())
        yield from (file.probe for file in self.files())
        yield link_probe(DEVICE_UNIT)
        yield from (UnitProbe(PERSISTENCED), UnitProbe(FABRIC_MANAGER))

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        files = tuple(file_changes(self.files(), facts, ctx))
        yield from files
        changed = subjects(files)
        unit = [subject for subject in changed if DEVICE_UNIT in subject or subject == DEVICE_PROGRAM]
        yield from enabling(DEVICE_UNIT, facts, unit)
        rule = tuple(subject for subject in changed if subject == BLACKLIST)
        image = tuple(initramfs(facts, ctx, facts.get(self.files()[-1].probe), rule))
        yield from image
        if not facts.need(IdentityProbe()).systemd:
            # An image being built: what the kernel shows belongs to the machine that builds it.
            return
        program = tuple(subject for subject in changed if subject == DEVICE_PROGRAM)
        loads = tuple(loading(self.load, self.keep_out, facts, ctx, (*rule, *subjects(image)), program))
        yield from loads
        if not loads:
            yield from device_files(facts, program)
        now = [found for found in loads if isinstance(found, Change) and not (found.deferred or found.disruption)]
        pending = subjects(now)
        if ctx.var("gpu.persistence", True):
            yield from persistence(facts, pending)
        yield from fabric_manager(facts, pending)

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        loaded, disk, cards = (facts.fact(probe) for probe in (LoadedModules(), ModulesOnDiskProbe(), PciProbe()))
        told: dict[str, Any] = {"modules": {}}
        for name, fact in (("loaded", loaded), ("on_disk", disk)):
            if isinstance(fact, Unknown):
                told["modules"][name] = {"unknown": fact.reason}
        if "loaded" not in told["modules"]:
            told["modules"]["loaded"] = dict(loaded.value) if isinstance(loaded, Known) else {}
        if isinstance(disk, Known):
            told["modules"]["on_disk"] = {name: module.version for name, module in disk.value.modules.items()}
        told["cards"] = (
            [device.text for device in cards.value if device.is_card]
            if isinstance(cards, Known)
            else ({"unknown": cards.reason} if isinstance(cards, Unknown) else [])
        )
        return told
