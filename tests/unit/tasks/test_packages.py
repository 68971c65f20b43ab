"""packages and containerd.package."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.facts.packages import LockHolderProbe, PackagesProbe, PackageState
from provisioner.model.action import Packages
from provisioner.model.change import Change, Disruption, Note, Refusal
from provisioner.model.fact import Probe
from provisioner.tasks.packages import PROGRAMS, ContainerdPackage
from provisioner.tasks.packages import GeneralPackages as Task
from provisioner.tasks.proof import assert_settles, changes, findings
from tests.unit.tasks.hosts import dpkg, file, rpm


def facts(state: PackageState) -> dict[Probe[Any], Any]:
    return {PackagesProbe(): state, LockHolderProbe(): None}


def action(found: list[Change]) -> Packages:
    (change,) = found
    (one,) = change.actions
    assert isinstance(one, Packages)
    return one


def test_missing_ones_are_installed_others_left_alone() -> None:
    before = dpkg("python3 3.11.2-1+b1 amd64\ntree 2.1.0-1 amd64 rc\n")
    after = dpkg("python3 3.11.2-1+b1 amd64\ntree 2.1.0-1 amd64\n")
    task = Task(names=("python3", "tree"))
    found = assert_settles(task, before=facts(before), after=facts(after))
    assert action(found).install == (("tree", None),)
    assert found[0].disruption is Disruption.SERVICE


@pytest.mark.parametrize(("have", "downgrade"), [("2.0.4-1", False), ("2.2.0-1", True)])
def test_an_exact_version_moves_both_ways_and_a_hold_on_it_stays(have: str, downgrade: bool) -> None:
    state = dpkg(f"tree {have} amd64 hi\n")
    found = action(changes(Task(names=("tree=2.1.0-1",)), facts(state)))
    assert (found.install, found.unhold, found.hold) == ((("tree", "2.1.0-1"),), ("tree",), ("tree",))
    assert found.allow_downgrade is downgrade


def test_hold_and_absent() -> None:
    state = facts(dpkg("tree 2.1.0-1 amd64\n"))
    assert action(changes(Task(names=("tree",), hold=True), state)) == Packages("apt", hold=("tree",))
    assert action(changes(Task(names=("tree", "hello"), state="absent"), state)) == Packages("apt", remove=("tree",))
    assert changes(Task(names=("hello",), state="absent"), state) == []
    with pytest.raises(PlaybookError):
        Task(names=("tree=1",), state="absent")


def test_a_broken_database_refuses_only_what_would_be_done() -> None:
    state = facts(dpkg("tree 2.1.0-1 amd64\npostfix 3.7 amd64 iF\n"))
    assert findings(Task(names=("tree",)), state) == []
    (refusal,) = findings(Task(names=("hello",)), state)
    assert isinstance(refusal, Refusal)


def test_the_same_task_plans_for_dnf() -> None:
    before = facts(rpm("bash 5.1.8-9.el9 x86_64\n"))
    found = action(changes(Task(names=("bash", "tree"), disruption="none"), before))
    assert found == Packages("dnf", install=(("tree", None),))


def containerd(state: PackageState, there: str = "") -> dict[Probe[Any], Any]:
    return {
        **facts(state),
        **{FileProbe(path, content=False): file("") if path == there else None for path in PROGRAMS},
    }


def test_containerd_comes_only_where_the_inventory_says_so_and_none_is_there() -> None:
    bare = containerd(dpkg(""))
    assert action(changes(ContainerdPackage(install=True), bare)).install == (("containerd", None),)
    (note,) = findings(ContainerdPackage(), bare)
    assert isinstance(note, Note)
    for there in (
        containerd(dpkg("containerd.io 1.7.24-1 amd64\n")),
        containerd(dpkg("containerd 1.6.20 amd64\n")),
        containerd(dpkg(""), "/usr/local/bin/containerd"),
        containerd(dpkg(""), "/usr/local/bin/k3s"),
    ):
        assert findings(ContainerdPackage(install=True), there) == []
