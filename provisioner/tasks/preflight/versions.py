"""Do driver, CUDA, toolkit and containerd fit each other?"""

from __future__ import annotations

from provisioner.containerd.result import Refused
from provisioner.containerd.versions import Release, release
from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Facts
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.cuda_releases import LEAST_DRIVER, least_driver
from provisioner.tasks.preflight.wanted import Wanted, numbers

CONFIG_V3_TOOLKIT = "1.17.4"
"""First toolkit whose tools read containerd's configuration of version 3, which containerd 2 writes (release notes
of NVIDIA Container Toolkit 1.17.4; NVIDIA/nvidia-container-toolkit#862)."""


def cuda(facts: Facts, wanted: Wanted) -> Verdict:
    """The driver is new enough for the highest CUDA release in the images used."""
    if wanted.cuda_max is None or not wanted.driver:
        return None
    least = least_driver(wanted.cuda_max)
    if least is None:
        newest = max(LEAST_DRIVER, key=numbers)
        return Refusal(
            subject="CUDA",
            what=f"can't tell whether driver {wanted.driver} is new enough for CUDA {wanted.cuda_max}",
            why=f"that release isn't in the table that ends with CUDA {newest}",
            remedy="correct gpu.cuda_max, or leave it out and check NVIDIA's CUDA release notes by hand",
        )
    if numbers(wanted.driver) >= numbers(least):
        return None
    return Refusal(
        subject="CUDA",
        what=f"driver {wanted.driver} is too old for CUDA {wanted.cuda_max}",
        why=f"CUDA {wanted.cuda_max} needs driver {least} or newer; containers would stop with "
        f"'unsatisfied condition: cuda>={wanted.cuda_max}'",
        remedy=f"set versions.driver to {least} or newer, or gpu.cuda_max to what the images really use",
    )


def toolkit(facts: Facts, wanted: Wanted) -> Verdict:
    """The toolkit's tools understand this containerd."""
    version = containerd(facts)
    if version is None or not wanted.toolkit or version < Release(2, 0):
        return None
    if numbers(wanted.toolkit) >= numbers(CONFIG_V3_TOOLKIT):
        return None
    return Refusal(
        subject="toolkit",
        what=f"toolkit {wanted.toolkit} doesn't know containerd {version}",
        why=f"containerd 2 keeps its configuration in version 3, which the toolkit reads from {CONFIG_V3_TOOLKIT} on",
        remedy=f"set versions.toolkit to {CONFIG_V3_TOOLKIT} or newer",
    )


def cdi(facts: Facts, wanted: Wanted) -> Verdict:
    """CDI is asked for only where containerd has it."""
    version = containerd(facts)
    if version is None or not wanted.enable_cdi or version.has_cdi:
        return None
    return Refusal(
        subject="CDI",
        what=f"containerd {version} has no CDI",
        why="containerd.enable_cdi is set, and enable_cdi came with containerd 1.7",
        remedy="update containerd to 1.7 or newer, or set containerd.enable_cdi = false",
    )


def known(facts: Facts, wanted: Wanted) -> Verdict:
    """A containerd whose configuration is known here."""
    text = facts.get(ContainerdVersionProbe())
    try:
        if text is not None:
            release(text)
    except Refused as error:
        said = error.refusal
        return Refusal(
            subject="containerd", what="this containerd can't be set up", why=said.reason, remedy=said.remedy
        )
    return None


def containerd(facts: Facts) -> Release | None:
    """The release on the host; None without containerd, which is the containerd stage's business, and for one
    that `known` refuses."""
    text = facts.get(ContainerdVersionProbe())
    try:
        return None if text is None else release(text)
    except Refused:
        return None


CHECKS = (
    Check("CUDA", "is the driver new enough for CUDA?", (), cuda),
    Check("containerd", "is this containerd known?", (ContainerdVersionProbe(),), known),
    Check("toolkit", "does the toolkit fit containerd?", (ContainerdVersionProbe(),), toolkit),
    Check("CDI", "has containerd CDI?", (ContainerdVersionProbe(),), cdi),
)
