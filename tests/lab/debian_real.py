"""Debian's real driver packages, two versions with all that they need beyond the base system."""

from __future__ import annotations

from pathlib import Path

from tests.lab.engine import LabError, say
from tests.lab.images import base_image, downloaded
from tests.lab.mirror import debian_mirror, suite_exists

_TOP = "nvidia-smi libcuda1 nvidia-kernel-dkms nvidia-persistenced"


def packages() -> dict[str, list[Path]]:
    """Component → packages. Empty, with the reason printed, where the mirror lacks them."""
    if not suite_exists("bookworm-backports"):
        say("the mirror has no bookworm-backports, so no second real driver version: tests on gpu-d can't run")
        return {}
    mirror = debian_mirror()
    areas = "main contrib non-free non-free-firmware"
    prepare = (
        f"echo 'deb {mirror} bookworm {areas}' >/etc/apt/sources.list\n"
        f"echo 'deb {mirror} bookworm-backports {areas}' >>/etc/apt/sources.list\n"
        "apt-get update -q\n"
    )
    install = "apt-get install -q -y --no-install-recommends --download-only"
    try:
        debs = downloaded(
            "debian-real",
            base_image("debian12"),
            f"{prepare}{install} {_TOP}\n{install} -t bookworm-backports {_TOP}\n",
        )
    except LabError as error:
        say(f"Debian's real driver packages could not be downloaded, tests on gpu-d can't run: {error}")
        return {}
    versions = sorted({deb.name.split("_")[1] for deb in debs if deb.name.startswith("nvidia-smi_")})
    say(f"Debian's real driver versions: {', '.join(versions)}")
    return {"main": debs}
