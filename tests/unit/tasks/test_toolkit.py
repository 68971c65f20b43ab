"""toolkit: four packages at one version."""

from __future__ import annotations

from provisioner.model.action import Packages
from provisioner.model.change import Refusal
from provisioner.tasks.proof import assert_settles, changes, findings
from provisioner.tasks.toolkit import Toolkit
from tests.unit.tasks.hosts import DEBIAN, ROCKY, context, dpkg, installed, rpm, stack_facts

FOUR = (
    ("libnvidia-container-tools", "1.17.8-1"),
    ("libnvidia-container1", "1.17.8-1"),
    ("nvidia-container-toolkit", "1.17.8-1"),
    ("nvidia-container-toolkit-base", "1.17.8-1"),
)


def test_all_four_at_the_locked_version() -> None:
    for system, bare in ((DEBIAN, dpkg("")), (ROCKY, rpm(""))):
        (change,) = assert_settles(
            Toolkit(),
            before=stack_facts(system, bare),
            after=stack_facts(system, installed(system)),
            ctx=context(system),
        )
        (action,) = change.actions
        assert isinstance(action, Packages)
        assert action.install == FOUR
        assert action.hold == tuple(name for name, _ in FOUR)


def test_one_of_another_version_moves_all_together_with_nothing_removed() -> None:
    text = "".join(f"{name} {version} amd64\n" for name, version in FOUR).replace("tools 1.17.8-1", "tools 1.18.0-1")
    # another driver on the host is no business of this task
    state = dpkg(text + "libcuda1 470.256.02-2 amd64\n")
    (change,) = changes(Toolkit(), stack_facts(DEBIAN, state, loaded="470.256.02"), context(DEBIAN))
    (action,) = change.actions
    assert isinstance(action, Packages)
    assert (action.install, action.remove, action.allow_downgrade) == (FOUR, (), True)
    assert change.deferred is None
    assert change.summary == "toolkit 1.18.0 → 1.17.8 (1 package)"


def test_without_a_lock_it_refuses() -> None:
    (found,) = findings(Toolkit(), stack_facts(DEBIAN, dpkg("")), context(DEBIAN, lock=None))
    assert isinstance(found, Refusal)
