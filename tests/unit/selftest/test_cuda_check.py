"""cuda_check.py against a libcuda that computes on the processor: what is evidence against a card, what isn't."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.selftest.machine import SELFTEST


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    source = Path(__file__).with_name("libcuda.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", folder / "libcuda.so.1", source], check=True)
    return folder


def check(library: Path, *options: str, **settings: str) -> tuple[str, list[dict[str, Any]]]:
    """Last line and cards."""
    done = subprocess.run(
        [sys.executable, "-I", SELFTEST / "cuda_check.py", *options],
        env={"LD_LIBRARY_PATH": str(library), **settings},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    return lines[-1], [json.loads(line.removeprefix("CARD ")) for line in lines if line.startswith("CARD ")]


def test_cards_that_compute_right_pass(library: Path) -> None:
    verdict, cards = check(library, "--expect", "2")
    assert verdict == "RESULT pass - 2 cards computed 262144 numbers right"
    assert [card["pci"] for card in cards] == ["0000:0a:00.0", "0000:0b:00.0"]


def test_one_wrong_number_fails_that_card_only(library: Path) -> None:
    verdict, cards = check(library, CUDA_WRONG="1")
    assert verdict.startswith("RESULT fail WrongResult card 1 (0000:0b:00.0): 1 of 262144 numbers are wrong")
    assert [card["result"] for card in cards] == ["pass", "fail"]


def test_kernel_that_did_not_run_is_noticed(library: Path) -> None:
    assert check(library, CUDA_IDLE="1")[0].startswith("RESULT fail WrongResult")


@pytest.mark.parametrize(
    ("broken", "verdict"),
    [
        ("cuCtxSynchronize=214", "fail EccUncorrectable"),
        ("cuCtxSynchronize=700", "fail IllegalAddress"),
        ("cuMemcpyDtoH_v2=719", "fail LaunchFailed"),
        ("cuInit=803", "fail DriverLibraryMismatch"),
        ("cuCtxCreate_v2=2", "unknown CudaError"),
        ("cuCtxCreate_v2=46", "unknown CudaError"),
        ("cuModuleLoadData=222", "unknown CudaError"),
        ("cuCtxSynchronize=702", "unknown CudaError"),
        ("cuMemAlloc_v2=2", "unknown CudaError"),
        ("cuInit=802", "unknown SystemNotReady"),
        ("cuInit=100", "unknown NoCudaDevice"),
        ("cuInit=999", "unknown CudaError"),
    ],
)
def test_which_errors_are_evidence(library: Path, broken: str, verdict: str) -> None:
    assert check(library, CUDA_BREAK=broken)[0].startswith(f"RESULT {verdict} ")


def test_context_that_cannot_be_destroyed_after_a_fault_hides_nothing(library: Path) -> None:
    verdict, cards = check(library, CUDA_BREAK="cuCtxDestroy_v2=719", CUDA_WRONG="1")
    assert verdict.startswith("RESULT fail WrongResult")
    assert len(cards) == 2


def test_fewer_devices_than_cards_is_unknown(library: Path) -> None:
    assert check(library, "--expect", "8")[0] == "RESULT unknown CudaSeesFewer CUDA sees 2 of 8 cards"


def test_no_device_at_all_is_no_pass(library: Path) -> None:
    assert check(library, CUDA_CARDS="0")[0].startswith("RESULT unknown CudaSeesFewer")


def test_missing_library_is_unknown(tmp_path: Path) -> None:
    assert check(tmp_path)[0].startswith("RESULT unknown LibraryMissing")
