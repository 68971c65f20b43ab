"""pin: preferences and the automatic-update blacklist follow the lock."""

from __future__ import annotations

import re

from provisioner.model.change import Note
from provisioner.tasks.packaging.apt import AUTOMATIC_UPDATES, PREFERENCES
from provisioner.tasks.pin import Pin
from provisioner.tasks.proof import assert_settles, changes, findings
from tests.unit.tasks.hosts import (
    CLOSURES,
    DEBIAN,
    ROCKY,
    UBUNTU,
    context,
    dpkg,
    installed,
    pin_facts,
    rpm,
    stack_facts,
)


def contents() -> dict[str, str]:
    """What the task writes on a bare Debian host."""
    found = changes(Pin(), pin_facts(DEBIAN, dpkg(""), {}), context(DEBIAN))
    return {change.subject: change.after or "" for change in found}


def test_exact_versions_never_above_the_priority_that_downgrades() -> None:
    text = contents()[PREFERENCES]
    stanzas = re.findall(r"Package: (\S+)\nPin: version (\S+)\nPin-Priority: (\d+)\n", text)
    locked = CLOSURES[DEBIAN].role("driver", "toolkit")
    assert [(name, version) for name, version, _ in stanzas] == [(package.name, package.version) for package in locked]
    assert all(int(priority) <= 1000 for _, _, priority in stanzas)
    assert "gcc-12" not in text


def test_automatic_updates_leave_every_held_package_alone() -> None:
    patterns = re.findall(r'^ +"(.*)";$', contents()[AUTOMATIC_UPDATES], re.M)
    for system in (DEBIAN, UBUNTU):
        for package in CLOSURES[system].role("driver", "toolkit"):
            # unattended-upgrades matches from the beginning of the name
            assert any(re.match(pattern, package.name) for pattern in patterns), package.name
    assert not any(re.match(pattern, name) for pattern in patterns for name in ("dkms", "gcc-12", "linux-image-amd64"))


def test_both_files_settle() -> None:
    assert_settles(
        Pin(),
        before=pin_facts(DEBIAN, installed(DEBIAN), {PREFERENCES: "Package: nvidia-smi\nPin: version 470*\n"}),
        after=pin_facts(DEBIAN, installed(DEBIAN), contents()),
        ctx=context(DEBIAN),
    )


def test_the_preferences_wait_where_the_driver_waits() -> None:
    facts = pin_facts(DEBIAN, dpkg("libcuda1 470.256.02-2 amd64 hi\n"), {}, loaded="470.256.02")
    found = {change.subject: change.deferred for change in changes(Pin(), facts, context(DEBIAN))}
    assert found[PREFERENCES] is not None
    assert found[AUTOMATIC_UPDATES] is None


def test_dnf_needs_no_files_and_no_lock_is_a_note() -> None:
    facts = pin_facts(ROCKY, rpm(""), {})
    assert changes(Pin(), facts, context(ROCKY)) == []
    (note,) = findings(Pin(), stack_facts(DEBIAN, dpkg("")), context(DEBIAN, lock=None))
    assert isinstance(note, Note)
