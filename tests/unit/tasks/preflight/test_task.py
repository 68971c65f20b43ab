"""gpu.preflight as a whole."""

from __future__ import annotations

import pytest

from provisioner.errors import PlaybookError
from provisioner.facts.gpu import PciProbe
from provisioner.model.fact import Unknown
from provisioner.tasks.context import Options
from provisioner.tasks.preflight.task import CHECKS, Preflight
from provisioner.tasks.proof import context_of, facts_of, findings
from provisioner.tasks.task import build
from tests.unit.tasks.preflight.facts import GOOD

VARIABLES = {"versions.driver": "580.95.05", "versions.toolkit": "1.18.0", "gpu.cards": 1, "gpu.cuda_max": "12.9"}


def test_a_good_host_passes_every_check() -> None:
    assert findings(Preflight(), GOOD, context_of(VARIABLES)) == []


def test_all_findings_are_told_at_once() -> None:
    bad = {**GOOD, PciProbe(): Unknown("/sys is not mounted")}
    found = findings(Preflight(), bad, context_of({**VARIABLES, "gpu.cuda_max": "13.3"}))
    assert [finding.subject for finding in found] == [
        "cards",
        "number of cards",
        "flavour",
        "passthrough",
        "PCI memory",
        "CUDA",
    ]


def test_each_check_has_a_name_of_its_own_and_reads_what_it_says() -> None:
    subjects = [check.subject for check in CHECKS]
    assert len(subjects) == len(set(subjects))
    for check in CHECKS:
        read = facts_of({probe: GOOD[probe] for probe in check.reads})
        ctx = context_of(VARIABLES)
        assert list(check.run(read, Preflight().wanted(ctx))) == []


def test_allow_no_gpu() -> None:
    ctx = context_of(VARIABLES, options=Options(allow_no_gpu=True))
    assert findings(Preflight(), {**GOOD, PciProbe(): ()}, ctx) == []


def test_space_is_a_field() -> None:
    task = build("gpu.preflight", {"space": {"/": 10**6}})
    found = findings(task, GOOD, context_of(VARIABLES))
    assert [finding.subject for finding in found] == ["space on /"]


@pytest.mark.parametrize(
    ("name", "value"), [("driver.modules", "kmod"), ("versions.driver", "latest"), ("gpu.cuda_max", "twelve")]
)
def test_values_that_mean_nothing(name: str, value: str) -> None:
    with pytest.raises(PlaybookError, match=name):
        findings(Preflight(), GOOD, context_of({**VARIABLES, name: value}))
