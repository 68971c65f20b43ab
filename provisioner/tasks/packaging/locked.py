"""From variables and facts to the closure that a host must have."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.facts.host import System
from provisioner.model.lock import Closure, Lock
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.names import top_packages


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a closure must answer to. Hosts with equal values share one; `top` is () unless the inventory names
    the packages itself (`driver.packages`)."""

    distribution: str
    family: str
    arch: str
    source: str
    flavour: str
    driver: str
    toolkit: str
    top: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For people: "debian12 amd64: driver 535.216.03 (open, from debian), toolkit 1.17.8"."""
        return (
            f"{self.distribution} {self.arch}: driver {self.driver} ({self.flavour}, from {self.source}), "
            f"toolkit {self.toolkit}"
        )


def wanted(ctx: Context, system: System) -> Wanted:
    """What the inventory wants on a host of this system; "" for a version that isn't set."""
    return Wanted(
        distribution=system.distribution,
        family=system.family,
        arch=system.arch if system.family == "debian" else system.machine,
        source=str(ctx.var("driver.source", "nvidia")),
        flavour=str(ctx.var("versions.flavour", "open")),
        driver=str(ctx.var("versions.driver", "")),
        toolkit=str(ctx.var("versions.toolkit", "")),
        top=tuple(ctx.var("driver.packages", ())),
    )


def matches(closure: Closure, want: Wanted) -> bool:
    """Whether the closure is for this system, source, flavour and top packages; versions aside."""
    if want.top:
        top = closure.top == want.top
    else:
        top = closure.top in top_packages(want.family, want.source, want.flavour, closure.driver)
    return top and (
        (closure.distribution, closure.arch) == (want.distribution, want.arch)
        and closure.source == want.source
        and closure.flavour == want.flavour
    )


def closure_for(lock: Lock | None, want: Wanted) -> Closure | str:
    """The closure, or a sentence that says why there is none."""
    if lock is None:
        return "there is no lock: nothing says which exact packages make up this driver and toolkit"
    near = [closure for closure in lock.closures if matches(closure, want)]
    for closure in near:
        if closure.driver == want.driver and closure.toolkit == want.toolkit:
            return closure
    if near:
        have = ", ".join(f"driver {closure.driver} with toolkit {closure.toolkit}" for closure in near)
        return f"the lock has {have}; the inventory wants driver {want.driver} with toolkit {want.toolkit}"
    return f"the lock has nothing for {want.text}"
