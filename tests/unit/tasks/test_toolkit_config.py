"""The task `toolkit.config`."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.containerd import BINARY, TOOLKIT_CONFIG
from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.model.action import WriteFile
from provisioner.model.change import Disruption, Note, Refusal
from provisioner.tasks.proof import assert_settles, changes, context_of, facts_of, findings
from provisioner.tasks.task import build
from provisioner.tasks.toolkit_config import ToolkitConfig

PACKAGED = """\
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig"
#no-cgroups = false

[nvidia-container-runtime]
mode = "auto"
"""


def file(text: str = "") -> FileState:
    return FileState("file", 0o644, "root", "root", len(text), text)


def host(text: str | None = PACKAGED, *, toolkit: bool = True, real: bool = False) -> dict[Any, Any]:
    return {
        FileProbe(TOOLKIT_CONFIG): None if text is None else file(text),
        FileProbe(BINARY, content=False): file() if toolkit else None,
        FileProbe("/sbin/ldconfig", content=False): file(),
        FileProbe("/sbin/ldconfig.real", content=False): file() if real else None,
    }


def test_what_nobody_wants_otherwise_stays_as_it_is() -> None:
    assert not findings(ToolkitConfig(), host())
    assert not findings(ToolkitConfig(), host(None)), "a missing file works as it is"


def test_ubuntus_program_is_the_real_one() -> None:
    ubuntu = PACKAGED.replace("@/sbin/ldconfig", "@/sbin/ldconfig.real")
    (change,) = assert_settles(ToolkitConfig(), before=host(real=True), after=host(ubuntu, real=True))
    assert change.after == ubuntu
    assert change.actions == (WriteFile(TOOLKIT_CONFIG, ubuntu),)
    assert change.disruption is Disruption.NONE
    assert_settles(ToolkitConfig(), before=host(ubuntu), after=host())


def test_a_path_of_the_sites_own_stays() -> None:
    own = PACKAGED.replace("@/sbin/ldconfig", "@/run/nvidia/driver/sbin/ldconfig")
    assert not findings(ToolkitConfig(), host(own))


def test_all_settings_and_nothing_else() -> None:
    task = ToolkitConfig(mode="cdi", no_cgroups=True, accept_envvar_unprivileged=False, accept_volume_mounts=True)
    (change,) = changes(task, host())
    assert change.after is not None
    assert change.summary == "4 settings of the container toolkit"
    assert not changes(task, host(change.after))
    kept = [line for line in PACKAGED.splitlines() if line not in change.after.splitlines()]
    assert kept == ['mode = "auto"']
    told = task.describe(facts_of(host(change.after)), context_of())["toolkit_config"]
    assert told == {
        "mode": "cdi",
        "ldconfig": "@/sbin/ldconfig",
        "no_cgroups": True,
        "accept_envvar_unprivileged": False,
        "accept_volume_mounts": True,
    }


def test_the_inventory_decides_where_the_playbook_says_nothing() -> None:
    ctx = context_of({"toolkit.mode": "cdi", "toolkit.no_cgroups": True})
    (change,) = changes(ToolkitConfig(mode="legacy"), host(), ctx)
    assert change.after is not None
    assert 'mode = "legacy"' in change.after
    assert "no-cgroups = true" in change.after


def test_a_file_that_a_package_will_bring_is_announced() -> None:
    ctx = context_of(planned=("packages/toolkit:packages",))
    (change,) = changes(ToolkitConfig(), host(None, toolkit=False), ctx)
    assert change.provisional
    assert (change.subject, change.actions, change.requires) == (TOOLKIT_CONFIG, (), ctx.planned)
    (note,) = findings(ToolkitConfig(), host(None, toolkit=False))
    assert isinstance(note, Note)
    (upgraded,) = changes(ToolkitConfig(mode="cdi"), host(), ctx)
    assert upgraded.provisional, "the package may bring another file"


def test_a_file_that_cannot_be_edited_is_refused() -> None:
    for wrong in (host("[a\n"), host() | {FileProbe(TOOLKIT_CONFIG): FileState("directory", 0o755, "root", "root", 0)}):
        (refused,) = findings(ToolkitConfig(), wrong)
        assert isinstance(refused, Refusal)
        assert refused.remedy


def test_a_mode_that_the_toolkit_does_not_know() -> None:
    with pytest.raises(PlaybookError, match="mode"):
        build("toolkit.config", {"mode": "magic"})
