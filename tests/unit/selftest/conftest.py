from pathlib import Path

import pytest

from tests.unit.selftest.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
