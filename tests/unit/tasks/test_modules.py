"""modules: facts in, exact changes out."""

from __future__ import annotations

import dataclasses
import subprocess
from typing import Any

import pytest

from provisioner.config.templates import Templates
from provisioner.facts.driver import LoadedModules, Module, ModulesOnDisk, ModulesOnDiskProbe, Smi, SmiProbe
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.gpu import (
    DeviceFile,
    DeviceFiles,
    DeviceFilesProbe,
    DriverProcProbe,
    Gpu,
    LoadedDriver,
    PciDevice,
    PciProbe,
)
from provisioner.facts.host import Identity, IdentityProbe
from provisioner.facts.initramfs import Image, Initramfs, InitramfsProbe
from provisioner.facts.services import Unit, UnitProbe
from provisioner.model.action import Guarded, Reboot, Run, Service, WriteFile
from provisioner.model.change import Change, Disruption, Note
from provisioner.model.fact import Output, Probe
from provisioner.tasks.modules import BLACKLIST, DEVICE_PROGRAM, DEVICE_UNIT, MODULES_LOAD, UDEV_RULE, Modules
from provisioner.tasks.proof import assert_settles, changes, context_of, facts_of, findings

TASK = Modules()
CTX = dataclasses.replace(context_of({"gpu.persistence": True}), renderer=Templates(()))
WANTS = FileProbe(f"/etc/systemd/system/multi-user.target.wants/{DEVICE_UNIT}", content=False)
LINK = FileState("file", 0o777, "root", "root", 0, link=f"/etc/systemd/system/{DEVICE_UNIT}")
VERSION = "580.95.05"
NAMES = ("nvidia", "nvidia_uvm", "nvidia_modeset")
CARD = PciDevice("0000:01:00.0", 0x2331, "0302", driver="nvidia")
SWITCH = PciDevice("0000:07:00.0", 0x22A3, "0680")
DISK = ModulesOnDisk("6.1.0-1", {name: Module(name, VERSION) for name in NAMES})
LOADED = dict.fromkeys(NAMES, VERSION)
PROC = LoadedDriver(VERSION, "open", (Gpu("0000:01:00.0", "H100", "GPU-a", 0),))
PERSISTENCED, FABRIC = UnitProbe("nvidia-persistenced.service"), UnitProbe("nvidia-fabricmanager.service")
RUNNING = Unit("enabled", load="loaded", active="active", sub="running", started=1.0)
STOPPED = Unit("disabled", load="loaded", active="inactive", sub="dead")
MIB = 1024 * 1024
IMAGE = Image("/boot/initrd.img-6.1.0-1", "6.1.0-1", 40 * MIB, mtime=2000)


def device(path: str, major: int, minor: int) -> DeviceFile:
    return DeviceFile(path, major, minor, 0o666, "root", "root")


DEVICES = DeviceFiles(
    files=(
        device("/dev/nvidia0", 195, 0),
        device("/dev/nvidiactl", 195, 255),
        device("/dev/nvidia-uvm", 511, 0),
        device("/dev/nvidia-uvm-tools", 511, 1),
    ),
    majors=(("nvidia", 195), ("nvidia-uvm", 511)),
    links=("195:0", "195:255", "511:0", "511:1"),
)


def host(**more: Any) -> dict[Probe[Any], Any]:
    """A host on which all is well; `more` overrides facts by short name."""
    facts: dict[Probe[Any], Any] = {
        IdentityProbe(): Identity("m", "b", 1, more.get("systemd", True)),
        PciProbe(): more.get("cards", (CARD,)),
        LoadedModules(): more.get("loaded", LOADED),
        ModulesOnDiskProbe(): more.get("disk", DISK),
        SmiProbe(): more.get("smi", Smi("/usr/bin/nvidia-smi", "nvidia-utils", VERSION)),
        DriverProcProbe(): more.get("proc", PROC),
        DeviceFilesProbe(): more.get("devices", DEVICES),
        InitramfsProbe(): more.get("initramfs", Initramfs("update-initramfs", (IMAGE,), 500 * MIB)),
        PERSISTENCED: more.get("persistenced", RUNNING),
        FABRIC: more.get("fabric"),
        WANTS: LINK if more.get("installed", True) else None,
    }
    for file in TASK.files():
        state = FileState("file", file.mode, "root", "root", 1, content=file.content(CTX), mtime=1000)
        facts[file.probe] = state if more.get("installed", True) else None
    return facts


def of(found: list[Change], subject: str) -> Change:
    (change,) = [change for change in found if change.subject == subject]
    return change


def test_first_installation_with_the_driver_on_disk() -> None:
    bare = host(installed=False, loaded=None, proc=None, devices=DeviceFiles(), persistenced=STOPPED)
    found = assert_settles(TASK, before=bare, after=host(), ctx=CTX)
    assert [change.subject for change in found] == [
        MODULES_LOAD,
        DEVICE_PROGRAM,
        f"/etc/systemd/system/{DEVICE_UNIT}",
        UDEV_RULE,
        BLACKLIST,
        f"{DEVICE_UNIT} enabled",
        "initramfs",
        "loaded modules",
        "nvidia-persistenced.service",
    ]
    assert {change.disruption for change in found} == {Disruption.NONE}
    load = of(found, "loaded modules")
    scripts = [action.script for action in load.actions if isinstance(action, Run)]
    assert scripts[0].startswith('for m in nvidia nvidia_uvm nvidia_modeset; do\n    modprobe "$m"\n')
    assert scripts[1] == DEVICE_PROGRAM
    assert load.requires == (DEVICE_PROGRAM,)
    assert of(found, "nvidia-persistenced.service").requires == ("loaded modules",)


def test_a_modprobe_that_ends_well_and_loads_nothing_is_a_failure_that_says_why() -> None:
    load = of(changes(TASK, host(loaded={}), CTX), "loaded modules").actions[0]
    assert isinstance(load, Run)
    modprobe = "modprobe() { [ \"$1\" != -n ] || echo 'install /bin/true '; }\n"
    done = subprocess.run(["dash", "-ec", modprobe + load.script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "modprobe nvidia loaded nothing, it runs: install /bin/true \n")


def test_what_is_written_on_the_host() -> None:
    found = changes(TASK, host(installed=False), CTX)
    written = {a.path: a for change in found for a in change.actions if isinstance(a, WriteFile)}
    lines = [line for line in written[MODULES_LOAD].content.splitlines() if not line.startswith("#")]
    assert lines == ["nvidia", "nvidia_uvm", "nvidia_modeset"]
    rule = written[BLACKLIST].content.splitlines()
    assert rule[1:] == ["blacklist nouveau", "blacklist nova_core", "blacklist nova_drm", "options nouveau modeset=0"]
    unit = written[f"/etc/systemd/system/{DEVICE_UNIT}"].content
    assert "Before=nvidia-persistenced.service containerd.service docker.service crio.service\n" in unit
    assert f"ExecStart={DEVICE_PROGRAM}\n" in unit
    assert written[DEVICE_PROGRAM].mode == 0o755
    assert written[UDEV_RULE].content.splitlines()[-1].startswith('ACTION=="add|bind", SUBSYSTEM=="pci"')


def test_only_missing_modules_are_loaded() -> None:
    (change,) = changes(TASK, host(loaded={"nvidia": VERSION, "nvidia_modeset": VERSION}), CTX)
    assert change.summary == f"nvidia_uvm loaded ({VERSION}), device files made"


def test_nothing_is_loaded_into_another_version() -> None:
    (change,) = changes(TASK, host(loaded={"nvidia": "570.172.08"}), CTX)
    assert change.deferred is not None
    assert change.deferred.reason == "570.172.08 is loaded and 580.95.05 is on disk: needs a drained node"
    assert change.deferred.command == "provision upgrade-driver site.toml --limit host"


def test_all_modules_loaded_in_another_version_are_not_this_tasks_matter() -> None:
    assert changes(TASK, host(loaded=dict.fromkeys(NAMES, "570.172.08")), CTX) == []


@pytest.mark.parametrize("driver", ["nouveau", "NovaCore", "nova_core"])
def test_card_held_by_another_driver_waits_for_a_reboot(driver: str) -> None:
    cards = (dataclasses.replace(CARD, driver=driver), SWITCH)
    facts = host(cards=cards, loaded=None, proc=None, installed=False, persistenced=STOPPED)
    change = of(changes(TASK, facts, CTX), "loaded modules")
    assert change.summary == f"reboot pending: {driver} holds 1 of 1 cards until then"
    assert change.disruption is Disruption.REBOOT
    assert isinstance(change.actions[0], Reboot)
    # The way out must be on disk and in the initramfs before the reboot.
    assert change.requires == (BLACKLIST, "initramfs")
    enabled = of(changes(TASK, facts, CTX), "nvidia-persistenced.service")
    assert (enabled.summary.split(":")[0], enabled.requires) == ("enabled", ())


def test_card_given_to_a_virtual_machine_needs_no_module() -> None:
    cards = (dataclasses.replace(CARD, driver="vfio-pci"),)
    assert changes(TASK, host(cards=cards, loaded=None, proc=None), CTX) == []


def test_modules_of_another_kernel_only() -> None:
    disk = ModulesOnDisk("6.1.0-1", other_kernels=("6.1.0-2",))
    (change,) = changes(TASK, host(loaded=None, proc=None, disk=disk), CTX)
    assert change.disruption is Disruption.REBOOT
    assert "6.1.0-2, not for the running 6.1.0-1" in change.summary


def test_before_the_driver_is_installed_loading_is_only_announced() -> None:
    (change,) = changes(TASK, host(loaded=None, proc=None, disk=ModulesOnDisk("6.1.0-1"), smi=None), CTX)
    assert change.provisional


def test_installed_driver_without_a_module_is_told() -> None:
    (note,) = findings(TASK, host(loaded=None, proc=None, disk=ModulesOnDisk("6.1.0-1")), CTX)
    assert isinstance(note, Note)
    assert note.text.startswith("there is no nvidia module for kernel 6.1.0-1")


@pytest.mark.parametrize(
    ("devices", "wrong"),
    [
        (dataclasses.replace(DEVICES, files=DEVICES.files[:2]), "/dev/nvidia-uvm, /dev/nvidia-uvm-tools"),
        (dataclasses.replace(DEVICES, majors=(("nvidia-uvm", 510),)), "/dev/nvidia-uvm, /dev/nvidia-uvm-tools"),
        (dataclasses.replace(DEVICES, links=DEVICES.links[1:]), "/dev/nvidia0"),
    ],
)
def test_device_files_missing_stale_or_without_link(devices: DeviceFiles, wrong: str) -> None:
    (change,) = assert_settles(TASK, before=host(devices=devices), after=host(), ctx=CTX)
    assert (change.subject, change.summary, change.disruption) == ("device files", f"{wrong} created", Disruption.NONE)


def test_driver_that_forbids_device_files_is_obeyed() -> None:
    proc = dataclasses.replace(PROC, params=(("ModifyDeviceFiles", "0"),))
    assert changes(TASK, host(proc=proc, devices=DeviceFiles()), CTX) == []


def test_initramfs_older_than_the_rule_is_built_anew_and_the_old_one_kept() -> None:
    old = dataclasses.replace(IMAGE, mtime=999)
    fresh = Image("/boot/initrd.img-6.1.0-2", "6.1.0-2", 40 * MIB, mtime=1000)
    (change,) = changes(TASK, host(initramfs=Initramfs("update-initramfs", (old, fresh), 500 * MIB)), CTX)
    (rebuild,) = change.actions
    assert isinstance(rebuild, Guarded)
    keep, build = (action.script for action in rebuild.actions if isinstance(action, Run))
    assert keep.endswith("/boot/initrd.img-6.1.0-1.before-provision")
    assert build == "update-initramfs -u -k 6.1.0-1"
    assert "lsinitramfs /boot/initrd.img-6.1.0-1" in rebuild.check


def test_initramfs_with_dracut() -> None:
    image = Image("/boot/initramfs-5.14.0.img", "5.14.0", 40 * MIB, mtime=1)
    (change,) = changes(TASK, host(initramfs=Initramfs("dracut", (image,), 500 * MIB)), CTX)
    (rebuild,) = change.actions
    assert isinstance(rebuild, Guarded)
    assert (
        Run("dracut --force /boot/initramfs-5.14.0.img 5.14.0", "build /boot/initramfs-5.14.0.img", 600)
        in rebuild.actions
    )


def test_too_little_space_for_a_new_initramfs_waits() -> None:
    found = changes(TASK, host(installed=False, initramfs=Initramfs("update-initramfs", (IMAGE,), 90 * MIB)), CTX)
    change = of(found, "initramfs")
    assert change.deferred is not None
    assert change.deferred.reason.startswith("/boot has 90 MiB free, the old and the new images need 96 MiB")


def test_host_without_initramfs_has_none_to_build() -> None:
    assert "initramfs" not in [change.subject for change in changes(TASK, host(installed=False, initramfs=None), CTX)]


def test_persistence_is_enabled_without_a_reload_of_systemd() -> None:
    (change,) = assert_settles(TASK, before=host(persistenced=STOPPED), after=host(), ctx=CTX)
    enable, start = change.actions
    assert isinstance(enable, Run)
    assert enable.script == "systemctl --no-reload enable nvidia-persistenced.service\n"
    assert start == Service("nvidia-persistenced.service", state="started")
    assert change.disruption is Disruption.NONE


def test_persistence_left_alone_where_the_inventory_says_so_or_somebody_masked_it() -> None:
    ctx = dataclasses.replace(context_of({"gpu.persistence": False}), renderer=CTX.renderer)
    assert changes(TASK, host(persistenced=STOPPED), ctx) == []
    masked = Unit("masked", load="masked", active="inactive")
    assert changes(TASK, host(persistenced=masked), CTX) == []


def test_fabric_manager_exactly_where_a_switch_is() -> None:
    switched = (CARD, SWITCH)
    (on,) = changes(TASK, host(cards=switched, fabric=STOPPED), CTX)
    assert on.summary == "enabled and started: 1 NVSwitches"
    assert changes(TASK, host(cards=switched, fabric=RUNNING), CTX) == []
    assert changes(TASK, host(fabric=STOPPED), CTX) == []
    failed = dataclasses.replace(RUNNING, active="failed", started=None)
    (off,) = assert_settles(TASK, before=host(fabric=failed), after=host(fabric=STOPPED), ctx=CTX)
    assert off.summary == "off: there is no NVSwitch for it"


def test_image_build_writes_files_and_touches_no_module() -> None:
    found = changes(TASK, host(systemd=False, installed=False, loaded=None, proc=None), CTX)
    assert [change.subject for change in found][-2:] == [f"{DEVICE_UNIT} enabled", "initramfs"]


def test_facts_show_modules_and_cards() -> None:
    told = TASK.describe(facts_of(host()), CTX)
    assert told["modules"] == {"loaded": LOADED, "on_disk": LOADED}
    assert told["cards"] == ["0000:01:00.0 [10de:2331]"]


def test_probe_of_the_initramfs_reads_images_tool_and_space() -> None:
    text = "image /boot/initrd.img-6.1.0-1 6.1.0-1 41943040 2000\ntool update-initramfs\nfree 524288000\n"
    assert InitramfsProbe().parse(Output(0, text.encode())) == Initramfs("update-initramfs", (IMAGE,), 500 * MIB)
