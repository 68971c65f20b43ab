"""What a person, a site's file or a clean-up takes from a node's boot: seen, mended, and right at the next boot."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.site import Site
from tests.vm import inventory, witness
from tests.vm.machine import Machine

#: A list with what mustn't come, before all others, and a module that systemd is told never to load.
SITE_FILES = {
    "/etc/modules-load.d/00-site.conf": "nouveau\nnvidia_drm\nnvidia_uvm\n",
    "/etc/modprobe.d/site.conf": "blacklist nvidia_uvm\n",
}
MODULES_LOAD = "/etc/modules-load.d/provision-nvidia.conf"
UDEV_RULE = "/etc/udev/rules.d/71-provision-nvidia.rules"
UNIT = "/etc/systemd/system/provision-nvidia-devices.service"
BREAK = f"""\
set -e
systemctl disable --now nvidia-persistenced.service
printf 'nvidia_modeset\\nnvidia_uvm\\nnvidia\\n' >{MODULES_LOAD}
rm {UDEV_RULE} {UNIT}
rm /etc/systemd/system/multi-user.target.wants/provision-nvidia-devices.service
systemctl daemon-reload; udevadm control --reload
rmmod nvidia_uvm; rm /dev/nvidia-uvm /dev/nvidia-uvm-tools"""


def test_what_was_taken_from_a_boot_is_seen_mended_and_right_at_the_next_one(
    vm: Callable[..., Machine], site: Site
) -> None:
    machine = vm("node", cards=2)
    witness.install(machine)
    for path, text in SITE_FILES.items():
        machine.put(path, text)
    machine.exec(BREAK, check=True)
    inventory.write(site, machine)

    host = site.json("plan")["hosts"][machine.name]
    planned = {change["subject"]: change for change in host["changes"]}
    assert set(planned) == {
        MODULES_LOAD,
        UDEV_RULE,
        UNIT,
        "provision-nvidia-devices.service enabled",
        "loaded modules",
        "nvidia-persistenced.service",
    }, host
    assert planned["loaded modules"]["summary"].startswith("nvidia_uvm loaded")
    assert planned["nvidia-persistenced.service"]["summary"].startswith("enabled and started")
    assert host["deferred"] == 0

    done = site.json("apply", "--yes")["hosts"][machine.name]
    assert (done["status"], done["changed"], done["failed"], done["deferred"]) == ("changed", 6, 0, 0), done
    _all_there(machine)

    machine.reboot()
    _all_there(machine)
    containerd, kubelet = (witness.seen(machine, unit) for unit in ("containerd", "kubelet"))
    assert set(containerd.devices) >= witness.DEVICES, containerd
    assert kubelet.verdict is not None
    assert kubelet.verdict["result"] == "pass", kubelet.verdict
    host = site.json("plan")["hosts"][machine.name]
    assert (host["status"], host["changes"]) == ("ok", []), host

    _a_card_plugged_in_later_gets_its_device_file(machine)


def _all_there(machine: Machine) -> None:
    assert witness.card_drivers(machine) == ["nvidia", "nvidia"]
    wanted = ("nvidia", "nvidia_uvm", "nvidia_modeset")
    assert witness.loaded(machine, *wanted) == dict.fromkeys(wanted, True)
    assert witness.loaded(machine, "nouveau") == {"nouveau": False}, "it stays out, whoever lists it"
    listed = [line for line in machine.get(MODULES_LOAD).decode().splitlines() if not line.startswith("#")]
    assert listed == list(wanted), "in the order in which they are loaded"
    assert machine.exec("test -c /dev/nvidia-uvm -a -c /dev/nvidia-uvm-tools").returncode == 0
    major = machine.exec("awk '$2 == \"nvidia-uvm\" { print $1 }' /proc/devices").stdout.strip()
    assert machine.exec("stat -c %Hr /dev/nvidia-uvm").stdout.strip() == major, "the module's number of now"
    asked = machine.exec("systemctl is-active nvidia-persistenced; systemctl is-enabled nvidia-persistenced")
    assert asked.stdout.split() == ["active", "enabled"]


def _a_card_plugged_in_later_gets_its_device_file(machine: Machine) -> None:
    """The udev rule is what does it: nobody else looks then."""
    machine.exec("systemctl stop nvidia-persistenced.service", check=True)
    machine.unplug(1)
    machine.exec("rm -f /dev/nvidia1", check=True)
    machine.plug(1)
    waited = machine.exec("for _ in $(seq 100); do [ -c /dev/nvidia1 ] && exit; sleep 0.2; done; exit 1")
    assert waited.returncode == 0, machine.exec("journalctl -b -o cat -u provision-nvidia-devices").stdout


def test_a_module_that_a_site_never_lets_load_is_a_failure_that_names_the_line(
    vm: Callable[..., Machine], site: Site
) -> None:
    """modprobe ends well there, and nothing is loaded."""
    machine = vm("node", cards=2)
    inventory.write(site, machine)
    machine.exec("rmmod nvidia_uvm && rm /dev/nvidia-uvm /dev/nvidia-uvm-tools", check=True)
    machine.put("/etc/modprobe.d/site.conf", "install nvidia_uvm /bin/true\n")
    done = site.json("apply", "--yes")
    host = done["hosts"][machine.name]
    assert (done["exit_code"], host["status"]) == (1, "failed"), host
    assert "modprobe nvidia_uvm loaded nothing, it runs: install /bin/true" in host["message"]
    assert not machine.exec("ls /dev/nvidia-uvm").stdout
