"""CUDA, toolkit, containerd. Facts in, exact findings out."""

from __future__ import annotations

import pytest

from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.preflight.cuda_releases import LEAST_DRIVER, least_driver
from provisioner.tasks.preflight.versions import CHECKS
from provisioner.tasks.preflight.wanted import Wanted, numbers
from tests.unit.tasks.preflight.facts import verdict

CHECK = {check.subject: check for check in CHECKS}


def test_driver_too_old_for_cuda() -> None:
    assert verdict(CHECK["CUDA"], Wanted(driver="570.172.08", cuda_max="12.9")) == Refusal(
        subject="CUDA",
        what="driver 570.172.08 is too old for CUDA 12.9",
        why="CUDA 12.9 needs driver 575.51.03 or newer; containers would stop with 'unsatisfied condition: cuda>=12.9'",
        remedy="set versions.driver to 575.51.03 or newer, or gpu.cuda_max to what the images really use",
    )


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("575.51.03", "12.9"), ("580.95.05", "13.0.2"), ("570.26", "12.8"), ("570.124.06", "12.8.0"), ("", "13.0")],
)
def test_driver_new_enough(driver: str, cuda: str) -> None:
    assert verdict(CHECK["CUDA"], Wanted(driver=driver, cuda_max=cuda)) is None


def test_numbers_compare_as_numbers_not_as_text() -> None:
    assert verdict(CHECK["CUDA"], Wanted(driver="570.86.10", cuda_max="12.8.1")) is not None
    assert numbers("535.104.05") > numbers("535.86.09")


def test_a_release_that_the_table_does_not_have() -> None:
    found = verdict(CHECK["CUDA"], Wanted(driver="580.95.05", cuda_max="12.7"))
    assert isinstance(found, Refusal)
    assert found.what == "can't tell whether driver 580.95.05 is new enough for CUDA 12.7"
    assert "ends with CUDA 13.3" in found.why


def test_the_table_rises_with_the_releases() -> None:
    drivers = [numbers(LEAST_DRIVER[cuda]) for cuda in sorted(LEAST_DRIVER, key=numbers)]
    assert drivers == sorted(drivers)
    assert least_driver("12.9.0") == "575.51.03"


def containerd(text: str) -> dict[ContainerdVersionProbe, str]:
    return {ContainerdVersionProbe(): f"containerd github.com/containerd/containerd/v2 {text} abc"}


def test_an_old_toolkit_does_not_know_containerd_2() -> None:
    assert verdict(CHECK["toolkit"], Wanted(toolkit="1.16.2"), containerd("2.1.9")) == Refusal(
        subject="toolkit",
        what="toolkit 1.16.2 doesn't know containerd 2.1.9",
        why="containerd 2 keeps its configuration in version 3, which the toolkit reads from 1.17.4 on",
        remedy="set versions.toolkit to 1.17.4 or newer",
    )
    assert verdict(CHECK["toolkit"], Wanted(toolkit="1.17.4"), containerd("2.1.9")) is None
    assert verdict(CHECK["toolkit"], Wanted(toolkit="1.16.2"), containerd("1.7.24")) is None


def test_cdi_needs_containerd_1_7() -> None:
    found = verdict(CHECK["CDI"], Wanted(enable_cdi=True), containerd("1.6.20"))
    assert isinstance(found, Refusal)
    assert found.what == "containerd 1.6.20 has no CDI"
    assert verdict(CHECK["CDI"], Wanted(enable_cdi=True), containerd("1.7.0")) is None
    assert verdict(CHECK["CDI"], Wanted(), containerd("1.6.20")) is None


def test_a_containerd_that_is_not_known() -> None:
    found = verdict(CHECK["containerd"], Wanted(), containerd("1.2.4"))
    assert isinstance(found, Refusal)
    assert found.what == "this containerd can't be set up"
    assert verdict(CHECK["toolkit"], Wanted(toolkit="1.16.2"), containerd("1.2.4")) is None


def test_without_containerd_there_is_nothing_to_fit() -> None:
    for subject in ("containerd", "toolkit", "CDI"):
        wanted = Wanted(toolkit="1.16.2", enable_cdi=True)
        assert verdict(CHECK[subject], wanted, {ContainerdVersionProbe(): None}) is None
        assert verdict(CHECK[subject], wanted, {ContainerdVersionProbe(): Unknown("it hangs")}) is not None
