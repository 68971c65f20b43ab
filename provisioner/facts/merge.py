"""Many probes, one script: compile them for one execution and take its output apart again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import Any

from provisioner.model.fact import Facts, Output, Probe


def prelude() -> str:
    """The sh functions that every observation script begins with."""
    return resources.files("provisioner.facts").joinpath("prelude.sh").read_text(encoding="utf-8")


def unique(probes: Iterable[Probe[Any]]) -> tuple[Probe[Any], ...]:
    """Each probe once, in the order of first mention."""
    return tuple(dict.fromkeys(probes))


def merge(probes: Sequence[Probe[Any]]) -> str:
    """One read-only sh script that asks all probes in their order."""
    parts = [prelude()]
    for number, probe in enumerate(probes, 1):
        parts.append(f"_p{number}() (\n{probe.script().strip()}\n)\n_probe _p{number}\n")
    parts.append("_report\n")
    return "".join(parts)


def take_apart(probes: Sequence[Probe[Any]], stdout: bytes) -> list[Output]:
    """The output of each probe, in their order. Raises ValueError when the frame isn't whole."""
    outputs: list[Output] = []
    at = 0
    for number in range(1, len(probes) + 1):
        end = stdout.find(b"\n", at)
        head = stdout[at:end].split() if end >= 0 else []
        if len(head) != 5 or head[0] != b"@probe" or int(head[1]) != number:
            raise ValueError(f"the observation's output breaks off before answer {number} of {len(probes)}")
        rc, out_size, err_size = int(head[2]), int(head[3]), int(head[4])
        start = end + 1
        outputs.append(
            Output(rc, stdout[start : start + out_size], stdout[start + out_size : start + out_size + err_size])
        )
        at = start + out_size + err_size
    if not stdout[at:].startswith(b"@end %d\n" % len(probes)):
        raise ValueError("the observation's output has no end mark")
    return outputs


def facts_from(
    host: str, probes: Sequence[Probe[Any]], stdout: bytes, at: float, mask: Callable[[bytes], bytes] = bytes
) -> Facts:
    """All facts of one observation. `mask` hides secrets in each answer; not in the whole output, whose frames
    count bytes. Raises ValueError when the output isn't whole."""
    outputs = [Output(out.rc, mask(out.stdout), mask(out.stderr)) for out in take_apart(probes, stdout)]
    return Facts(host, {probe: probe.read(out) for probe, out in zip(probes, outputs, strict=True)}, at)
