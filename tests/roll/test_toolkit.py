"""The toolkit, rolled as the driver is; and a roll that is gone on with by who doesn't know what it was about."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.lab import LabHost
from tests.lab.containerdhosts import RUNTIME, ctr_run, rootfs
from tests.roll.scene import TOOLKIT, Scene, loaded, toolkit, until

OTHER = "1.17.8"
HOSTS = ("gpu-k", "gpu-m")


def works(host: LabHost, version: str) -> None:
    """A container starts by the toolkit's runtime, which is of this version."""
    assert toolkit(host) == version
    assert version in host.exec(f"{RUNTIME} --version", check=True).stdout
    assert host.exec(ctr_run("card", "echo works"), check=True).stdout == "works\n"


def test_the_toolkit_goes_there_and_a_roll_cut_off_on_the_way_back_needs_no_option(
    scene: Callable[..., Scene],
) -> None:
    made = scene(*HOSTS, alike=True)
    version, before = loaded(made.hosts["gpu-k"]), made.installations("gpu-k")
    made.write(version)
    for host in made.hosts.values():
        rootfs(host)
        host.exec("systemctl start nvidia-cdi-refresh", check=True)  # as at a boot, which only one may have had

    done = made.site.json("upgrade-driver", "--toolkit", OTHER, "--max-unavailable", "2", "--yes")
    assert done["exit_code"] == 0, done
    assert {
        name: (each["phase"], each["kind"], each["source"], each["target"]) for name, each in done["nodes"].items()
    } == (dict.fromkeys(HOSTS, ("done", "toolkit", TOOLKIT, OTHER)))
    assert f'toolkit = "{OTHER}"   # moved by --toolkit' in made.site.inventory.read_text()
    lock = made.site.inventory.with_suffix(".lock").read_text()
    assert OTHER in lock
    assert TOOLKIT not in lock
    drift = made.site.run("drift")
    assert drift.returncode == 0, drift.stdout + drift.stderr
    for name, host in made.hosts.items():
        works(host, OTHER)
        made.check_clean(name, version)

    controller = made.start("--toolkit", TOOLKIT)
    until(lambda: made.record("gpu-k").get("phase") == "installing", "the roll is at work")
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    resumed = made.site.json("upgrade-driver", "--resume", "--yes")
    assert resumed["exit_code"] == 0, resumed
    assert {name: each["phase"] for name, each in resumed["nodes"].items()} == dict.fromkeys(HOSTS, "done")
    assert made.site.run("drift").returncode == 0
    for name, host in made.hosts.items():
        works(host, TOOLKIT)
        made.check_clean(name, version)
    assert made.installations("gpu-k") == before, "the driver wasn't touched"
    made.check_deletions()
