"""An image is built: the same playbook inside it, on this machine, without a running systemd and without a card."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab
from tests.lab.engine import docker, docker_command
from tests.lab.site import GPU_NODE, REPO, Site

NAME = "provision-lab-image-build"
PACKAGES = sysconfig.get_paths()["purelib"]


@pytest.fixture(scope="module")
def image(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A container as image builders use one: a shell, no init. Yields the site's folder, which it shares."""
    folder = tmp_path_factory.mktemp("image")
    site = Site(folder)
    site.write(lab.host("gpu-x"), text=GPU_NODE + '[driver]\nmodules = "prebuilt"\n')
    host = lab.host("gpu-x")
    host.up()
    docker("rm", "-f", NAME)
    docker(
        "run",
        "-d",
        "--name",
        NAME,
        "--label",
        "provision-lab=1",
        "-v",
        f"{host.packages_folder()}:/srv/lab-repo:ro",
        "-v",
        f"{REPO}:{REPO}:ro",
        "-v",
        f"{PACKAGES}:{PACKAGES}:ro",
        "-v",
        f"{folder}:{folder}",
        host.image(),
        "sleep",
        "900",
    )
    yield folder
    docker("rm", "-f", NAME)


def inside(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`provision WORDS` in the container, with the project and its libraries as they are here."""
    program = "import sys; from provisioner.cli.main import main; sys.exit(main())"
    return subprocess.run(
        [
            *docker_command(),
            "exec",
            "-e",
            f"PYTHONPATH={REPO}:{PACKAGES}",
            "-e",
            "PYTHONDONTWRITEBYTECODE=1",
            "-e",
            f"PROVISION_STATE_DIR={folder}/state",
            NAME,
            f"python{sys.version_info.major}.{sys.version_info.minor}",
            "-c",
            program,
            *words,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_image_gets_everything_and_nothing_is_started(image: Path) -> None:
    inventory = str(image / "site.toml")
    locked = inside(image, "lock", inventory, "--local")
    assert locked.returncode == 0, locked.stderr + locked.stdout
    words = ("apply", inventory, "--local", "--allow-no-gpu", "--yes", "--json")
    first = document(inside(image, *words))
    assert first["exit_code"] == 0, first
    assert first["hosts"]["gpu-x"]["status"] == "changed"
    again = document(inside(image, *words))["hosts"]["gpu-x"]
    assert (again["status"], again["changed"], again["execs"]) == ("ok", 0, 1), again

    def said(command: str) -> str:
        return docker("exec", NAME, "sh", "-c", command)

    assert "580.95.05" in said("dpkg-query -W nvidia-driver-cuda")
    assert "nvidia-open" in said("apt-mark showhold")
    assert 'default_runtime_name = "nvidia"' in said("cat /etc/containerd/config.toml")
    enabled = said("ls /etc/systemd/system/multi-user.target.wants")
    assert "provision-selftest.service" in enabled
    assert "provision-nvidia-devices.service" in enabled
    running = said("ls -d /proc/[0-9]*/exe | xargs -n1 readlink 2>/dev/null || true")
    assert "containerd" not in running, "an image is built, nothing is started in it"
