"""What an image demands of the driver, as its variable NVIDIA_REQUIRE_CUDA says it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from provisioner.tasks.preflight.cuda_releases import least_driver
from provisioner.tasks.preflight.wanted import numbers

CONDITION = re.compile(r"(?P<name>[a-z]+)(?P<op>>=|<=|!=|=|<|>)(?P<value>\S+)")


@dataclass(frozen=True, slots=True)
class ImageNeed:
    """What a running pod's image demands. `pod` "namespace/name"; `requirement` as in NVIDIA_REQUIRE_CUDA:
    "cuda>=12.4 brand=tesla,driver>=470,driver<471"."""

    pod: str
    requirement: str


def fulfilled(requirement: str, driver: str) -> bool | None:
    """Does this driver fulfil it? Spaces stand between alternatives, commas between conditions that must all hold
    (NVIDIA container toolkit, "Constraints"). None: it hangs on what can't be told here, the card's brand or a CUDA
    release that the table doesn't have. An empty requirement is fulfilled."""
    answers = [_all(_condition(each, driver) for each in part.split(",")) for part in requirement.split()]
    if not answers or True in answers:
        return True
    return None if None in answers else False


def _all(conditions: Iterable[bool | None]) -> bool | None:
    answers = list(conditions)
    if False in answers:
        return False
    return None if None in answers else True


def _condition(text: str, driver: str) -> bool | None:
    found = CONDITION.fullmatch(text)
    if found is None or found["name"] not in ("cuda", "driver") or not found["value"][:1].isdigit():
        return None
    value = found["value"]
    if found["name"] == "cuda":
        least = least_driver(value)
        if found["op"] != ">=" or least is None:
            return None
        value = least
    have, want = numbers(driver), numbers(value)
    # "driver<471" and "driver>=470" name branches: as many parts are compared as they have.
    part = have if found["name"] == "cuda" else have[: len(want)]
    return {
        ">=": part >= want,
        "<=": part <= want,
        "!=": part != want,
        "=": part == want,
        "<": part < want,
        ">": part > want,
    }[found["op"]]
