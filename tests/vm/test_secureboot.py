"""Secure Boot: a module that the kernel won't load is told of before anything is changed, as far as it can be known:
a package's module shows its signature once it is there."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.site import Site
from tests.roll.scene import SECOND
from tests.vm import rolls
from tests.vm.machine import Machine

PACKAGE = f"/srv/lab-repo/nvidia/pool/main/nvidia-kernel-open-dkms_{SECOND}-1_amd64.deb"


def _unsigned(machine: Machine) -> str:
    """Put unsigned modules on the disk, give them the card; what the kernel says to that, "" when it loads them."""
    copied = f"dpkg-deb -x {PACKAGE} /tmp/driver && cp -r /tmp/driver/lib/modules/. /lib/modules/ && depmod"
    machine.exec(f"{copied} && {{ [ ! -d /sys/module/nouveau ] || rmmod nouveau; }}", check=True)
    return machine.exec("modprobe nvidia").stderr


def test_where_only_signed_modules_load_an_unsigned_one_is_refused(vm: Callable[..., Machine], site: Site) -> None:
    machine = vm("cold", cards=2, secure_boot=True)
    packages = machine.packages()
    rolls.want(site, machine, SECOND, modules="dkms")
    host = site.json("apply", "--yes")["hosts"][machine.name]
    (refused,) = (each for each in host["refusals"] if each["subject"] == "Secure Boot")
    assert refused["what"] == "the kernel won't load a module that dkms builds"
    assert "Secure Boot is on, and dkms has no key yet" in refused["why"]

    rolls.want(site, machine, SECOND)
    notes = [note["text"] for note in site.json("plan")["hosts"][machine.name]["notes"]]
    assert any(text.startswith("Secure Boot is on: the prebuilt module loads only if") for text in notes), notes
    assert "Key was rejected by service" in _unsigned(machine), "the premise of this test"
    done = site.json("apply", "--yes")
    host = done["hosts"][machine.name]
    assert (done["exit_code"], host["status"], host["changed"]) == (1, "refused", 0), host
    (refused,) = host["refusals"]
    assert refused["what"] == f"the kernel won't load the module of driver {SECOND}"
    assert "Secure Boot is on, and it isn't signed" in refused["why"]
    assert "mokutil --import" in refused["remedy"]
    assert machine.packages() == packages, "nothing was changed"


def test_with_secure_boot_off_it_goes_on(vm: Callable[..., Machine], site: Site) -> None:
    machine = vm("cold", cards=2, secure_boot=False)
    assert _unsigned(machine) == "", "the premise of this test"
    rolls.want(site, machine, SECOND)
    plan = site.json("plan")
    host = plan["hosts"][machine.name]
    assert (plan["exit_code"], host["status"], host["refusals"]) == (0, "pending", []), host
