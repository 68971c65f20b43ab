"""The kernel changes, or its modules are built on the host: what would leave it without a driver is said before."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.site import Site
from tests.roll.scene import BROKEN, FIRST, SECOND, installed, loaded
from tests.vm import rolls
from tests.vm.kernel import kernels
from tests.vm.machine import Machine


def test_a_newer_kernel_without_a_driver_is_named_before_it_boots(vm: Callable[..., Machine], site: Site) -> None:
    """A routine upgrade brought the newer kernel's image, and nothing that makes modules for it."""
    machine = vm("node", cards=2)
    running, newer = (kernel.release for kernel in kernels())
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends"
    machine.exec(f"{install} linux-image-{newer}", check=True, timeout=600)
    assert newer in machine.exec("grep -m1 vmlinuz /boot/grub/grub.cfg").stdout, "GRUB boots it next"
    packages = machine.packages()

    rolls.want(site, machine, SECOND)
    refused = _refused(site, machine, "apply", "--yes", "--reboot")
    assert refused["what"] == f"no module of driver {SECOND} for the next kernel {newer}"
    assert "without cards" in refused["why"]
    assert f"install the package with the prebuilt modules for {newer}" in refused["remedy"]
    rolls.want(site, machine, FIRST)
    roll = site.json("upgrade-driver", "--yes")
    assert (roll["exit_code"], roll["plan"]["nodes"]) == (1, []), roll
    assert f"for the next kernel {newer}" in roll["plan"]["refused"][machine.name]

    # The same host, where dkms is to build what a package brought so far.
    rolls.want(site, machine, SECOND, modules="dkms")
    refused = _refused(site, machine, "plan")
    assert refused["what"] == f"no headers for the next kernel {newer}"
    assert f"apt-get install linux-headers-{newer}" in refused["remedy"]

    assert machine.packages() == packages, "nothing was changed"
    assert machine.exec("uname -r").stdout.strip() == running
    assert loaded(machine) == SECOND


def test_modules_that_do_not_compile_lead_back_to_the_version_before(vm: Callable[..., Machine], site: Site) -> None:
    machine = vm("node", cards=2)
    boot = machine.boot_id()
    running = kernels()[0].release
    listed = machine.get("/etc/apt/sources.list.d/provision-nvidia.sources").decode()
    machine.put("/etc/apt/sources.list.d/more.sources", listed.replace("Components: main", "Components: broken"))
    build = f"dkms gcc make linux-headers-{running}"
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends"
    machine.exec(f"apt-get update -q && {install} {build}", check=True, timeout=600)
    rolls.want(site, machine, BROKEN, components='"main", "broken"', modules="dkms")

    done = site.json("upgrade-driver", "--yes", "--reboot", "never")
    record = done["nodes"][machine.name]
    assert (done["exit_code"], record["phase"]) == (1, "rolled-back"), done
    assert "nv_set_vm_flags_of_a_newer_kernel" in record["reason"], "what the compiler said"
    assert (loaded(machine), installed(machine)) == (SECOND, SECOND)
    assert machine.boot_id() == boot

    machine.exec("rm /etc/apt/sources.list.d/more.sources && apt-get update -q", check=True)
    rolls.want(site, machine, SECOND)
    rolls.check_works(machine, site, SECOND)


def _refused(site: Site, machine: Machine, *command: str) -> dict[str, str]:
    """The one refusal that a command ends with."""
    done = site.json(*command)
    assert done["exit_code"] == 1, done
    refusals = done["hosts"][machine.name]["refusals"]
    assert len(refusals) == 1, refusals
    found: dict[str, str] = refusals[0]
    return found
