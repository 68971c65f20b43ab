"""What the inventory wants of a host, as far as preflight must know it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from provisioner.errors import PlaybookError
from provisioner.tasks.context import Context

Version = tuple[int, ...]


def numbers(version: str) -> Version:
    """A dotted version as numbers that compare: "580.95.05" → (580, 95, 5). Anything behind the digits and dots
    is left out. Raises ValueError when it doesn't begin with a digit."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    if found is None:
        raise ValueError(f"{version!r} is no version")
    return tuple(int(part) for part in found[0].split("."))


@dataclass(frozen=True, slots=True)
class Wanted:
    """`driver`, `toolkit`: exact versions, "" when the inventory names none. `flavour` "open" or "proprietary".
    `modules`: how kernel modules come about: "dkms" builds them on the host, "prebuilt" ones come in packages.
    `packages`: the driver's packages that the inventory names itself.
    `cards` the expected number, `cuda_max` the highest CUDA release in the images used; None: not said.
    `space`: (folder, MiB that must be free there)."""

    driver: str = ""
    flavour: str = "open"
    toolkit: str = ""
    source: str = "nvidia"
    modules: Literal["dkms", "prebuilt"] = "dkms"
    packages: tuple[str, ...] = ()
    cards: int | None = None
    cuda_max: str | None = None
    allow_no_gpu: bool = False
    enable_cdi: bool = False
    space: tuple[tuple[str, int], ...] = (("/", 1024), ("/boot", 100), ("/var", 1536))

    @property
    def branch(self) -> int | None:
        """The driver's branch, 580 for "580.95.05"; None without a version."""
        return numbers(self.driver)[0] if self.driver else None

    @classmethod
    def of(cls, ctx: Context, space: Mapping[str, int]) -> Wanted:
        """From the variables of a host; `space` replaces single limits. Raises PlaybookError for values that mean
        nothing."""
        modules = ctx.var("driver.modules", "dkms")
        if modules not in ("dkms", "prebuilt"):
            raise PlaybookError(
                f"driver.modules is {modules!r}",
                why='it says where kernel modules come from: "dkms" (built on the host) or "prebuilt" (in packages)',
            )
        driver, toolkit, cuda = (
            str(ctx.var(name) or "") for name in ("versions.driver", "versions.toolkit", "gpu.cuda_max")
        )
        for name, version in (("versions.driver", driver), ("versions.toolkit", toolkit), ("gpu.cuda_max", cuda)):
            if version and not re.fullmatch(r"\d+(\.\d+)+", version):
                raise PlaybookError(f"{name} is {version!r}", why="a version is numbers and dots, like 580.95.05")
        return cls(
            driver=driver,
            flavour=str(ctx.var("versions.flavour", "open")),
            toolkit=toolkit,
            source=str(ctx.var("driver.source", "nvidia")),
            modules=modules,
            packages=tuple(ctx.var("driver.packages") or ()),
            cards=ctx.var("gpu.cards"),
            cuda_max=cuda or None,
            allow_no_gpu=ctx.options.allow_no_gpu,
            enable_cdi=bool(ctx.var("containerd.enable_cdi", False)),
            space=tuple({**dict(cls().space), **space}.items()),
        )
