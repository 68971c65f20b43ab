"""Every kind of config.toml that hosts have, edited: the handlers containerd then sees, and all else untouched."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

import pytest

from provisioner.containerd import Edit, Mode, Refusal, edit, remove

from .seen import CASES, VERSIONS, case, comments, meaning, seen

BOTH = "nvidia[runc.v2 sd=True NCR] runc[runc.v2 sd=True -]"
UNSAID = "nvidia[runc.v2 sd=- NCR] runc[runc.v2 sd=- -]"
HOOK = "nvidia[runc.v2 sd=True NCR] nvidia-container-runtime[runc.v2 sd=True nvidia-container-runtime] "
FOREIGN = "nvidia[runc.v2 sd=True NCR] nvidia-cdi[runc.v2 sd=- NCR.cdi] nvidia-legacy[runc.v2 sd=- NCR.legacy] "
CRUN = "crun[runc.v2 sd=True /usr/bin/crun] nvidia[runc.v2 sd=True NCR]"
KATA = "kata[kata.v2 sd=- -] nvidia[runc.v2 sd=True NCR]"
BUILT_IN = " runc[runc.v2 sd=False -]"

# name: (handlers on 1.x, handlers on 2.x or None for the same, the default in runtimeclass mode)
RIGHT: dict[str, tuple[str, str | None, str]] = {
    "already-done": (BOTH, None, "runc"),
    "arrays-of-tables": (UNSAID, None, "runc"),
    "byte-order-mark": (BOTH, None, "runc"),
    "cgroupfs": ("nvidia[runc.v2 sd=False NCR] runc[runc.v2 sd=False /opt/runc]", None, "runc"),
    "comments-no-final-newline": (BOTH, None, "runc"),
    "comments-only": (BOTH, None, "runc"),
    "crlf-no-final-newline": (BOTH, None, "runc"),
    "crlf-tabs": (BOTH, None, "runc"),
    "crun-default": (CRUN, CRUN + BUILT_IN, "crun"),
    "debian-stock": (BOTH, None, "runc"),
    "default-21": ("refused", BOTH, "runc"),
    "disabled-by-full-name": (BOTH, None, "runc"),
    "disabled-last": (BOTH, None, "runc"),
    "disabled-multiline": (BOTH, None, "runc"),
    "disabled-v3": ("refused", BOTH, "runc"),
    "docker-package": (BOTH, None, "runc"),
    "dotted-below-cri": (UNSAID, None, "runc"),
    "dotted-in-section": (BOTH, None, "runc"),
    "dotted-nvidia": (BOTH, None, "runc"),
    "dotted-toplevel": (BOTH, None, "runc"),
    "dotted-without-default": (BOTH, None, "runc"),
    "empty": (BOTH, None, "runc"),
    "no-file": (BOTH, None, "runc"),
    "escaped-quotes": (UNSAID, None, "runc"),
    "half-done": (BOTH, None, "runc"),
    "hook-leftovers": (HOOK + "runc[runc.v2 sd=True -]", None, "nvidia-container-runtime"),
    "inline-containerd": (BOTH, None, "runc"),
    "inline-dotted": (UNSAID, None, "runc"),
    "inline-empty": (BOTH, None, "runc"),
    "inline-plugins": (BOTH, None, "runc"),
    "inline-runtimes": (BOTH, None, "runc"),
    "kata-alone": (KATA, KATA + BUILT_IN, "kata"),
    "kubeadm-systemd": (BOTH, None, "runc"),
    "literal-quotes": (BOTH, None, "runc"),
    "multi-line-string": (UNSAID, None, "runc"),
    "nvidia-alone": (BOTH, None, "runc"),
    "nvidia-empty-header": (BOTH, None, "runc"),
    "nvidia-foreign": (FOREIGN + "runc[runc.v2 sd=True -]", None, "runc"),
    "nvidia-inline": (BOTH, None, "runc"),
    "nvidia-old": (BOTH, None, "runc"),
    "privileged-runc": (BOTH, None, "runc"),
    "registry-mirrors": (BOTH, None, "runc"),
    "runc-string-cgroup": ("nvidia[runc.v2 sd=True NCR] runc[runc.v2 sd=true -]", None, "runc"),
    "runc-without-cgroup": (UNSAID, None, "runc"),
    "runsc-default": (BOTH + " runsc[runsc.v1 sd=- -]", None, "runsc"),
    "runtimes-header-only": (BOTH, None, "runc"),
    "super-table-last": (BOTH, None, "runc"),
    "systemd-cgroup-switch": (BOTH, UNSAID, "runc"),
    "v3-path-in-v2": (BOTH, None, "runc"),
    "version-1-explicit": ("nvidia[runc.v2 sd=- NCR] runc[runc.v1 sd=- -]", UNSAID, "runc"),
    "version-1-inline": (UNSAID, None, "runc"),
    "version-1-plain": (BOTH, None, "runc"),
    "version-1-quoted-dotted": (BOTH, None, "runc"),
    "version-3-bare": ("refused", BOTH, "runc"),
    "version-4": ("refused", "refused", "runc"),
    "version-below-header": (BOTH, None, "runc"),
    "version-below-plugins": (UNSAID, None, "runc"),
    "version-last-toplevel": (BOTH, None, "runc"),
    "version-missing": (BOTH, None, "runc"),
    "version-missing-nothing-else": (BOTH, None, "runc"),
    "version-only": (BOTH, None, "runc"),
    "wrong-path-v3": ("refused", BOTH, "runc"),
}
NOT_REMOVABLE_TO_INPUT = {  # nvidia was there before, the CRI plugin was off, or the file's version was wrong
    "already-done",
    "dotted-nvidia",
    "half-done",
    "runtimes-header-only",
    "systemd-cgroup-switch",
}


def edited(data: bytes, release: str, mode: Mode) -> Edit | Refusal:
    return edit(data, mode=mode, containerd=release, cgroup_driver="systemd")


def wanted(name: str, release: str) -> str:
    old, new, _ = RIGHT[name]
    return (new or old) if release.startswith("2") else old


def test_every_case_has_a_right_result() -> None:
    assert {path.stem for path in CASES.glob("*.toml")} == set(RIGHT) - {"no-file"} | {"default-runtime-table"}


@pytest.mark.parametrize("release", VERSIONS)
@pytest.mark.parametrize("name", RIGHT)
def test_handlers_after_the_edit(name: str, release: str) -> None:
    handlers = wanted(name, release)
    for mode, default in ((Mode.DEFAULT, "nvidia"), (Mode.RUNTIMECLASS, RIGHT[name][2])):
        answer = edited(case(name), release, mode)
        if handlers == "refused":
            assert isinstance(answer, Refusal)
            assert answer.reason
            assert answer.remedy
        else:
            assert isinstance(answer, Edit), answer
            assert seen(answer.result, release) == f"default={default} {handlers}"


def other_settings(data: bytes) -> dict[str, Any]:
    """All settings that aren't the editor's business, by the plugin names of version 2."""
    document = meaning(data)
    document.pop("version", None)
    off = document.pop("disabled_plugins", [])
    plugins = document.get("plugins", {})
    plugins.pop("version", None)
    for short, full in (("cri", "io.containerd.grpc.v1.cri"), ("opt", "io.containerd.internal.v1.opt")):
        if short in plugins:
            plugins[full] = plugins.pop(short)
    for name in ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"):
        table = plugins.get(name, {}).get("containerd", {})
        table.pop("default_runtime_name", None)
        for handler in ("nvidia", "runc"):
            table.get("runtimes", {}).pop(handler, None)
        plugins.get(name, {}).pop("systemd_cgroup", None)
    document["off"] = [item for item in off if "aufs" in item or "btrfs" in item]
    return pruned(document)


def pruned(table: dict[str, Any]) -> dict[str, Any]:
    kept = {key: pruned(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {key: value for key, value in kept.items() if value not in ({}, [], False)}


def editable() -> list[tuple[str, str]]:
    return [(name, release) for name in RIGHT for release in VERSIONS if wanted(name, release) != "refused"]


@pytest.mark.parametrize(("name", "release"), editable())
def test_all_else_stays(name: str, release: str) -> None:
    data = case(name)
    for mode in Mode:
        answer = edited(data, release, mode)
        assert isinstance(answer, Edit)
        only_the_handlers_differ(data, answer, converted=name.startswith("version-1") and release.startswith("2"))
        if name != "version-1-explicit":
            assert other_settings(answer.result) == other_settings(data)


def only_the_handlers_differ(data: bytes, answer: Edit, *, converted: bool) -> None:
    """Comments, lines and line ends stay; few lines are replaced and few are new."""
    assert not Counter(comments(data)) - Counter(comments(answer.result)), "a comment is lost"
    before = data.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    after = answer.result.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    gone = [line for line in difflib.ndiff(_text(before), _text(after)) if line.startswith("- ")]
    assert len(gone) <= (9 if converted else 3), gone
    assert len(after) - len(before) <= 22
    if b"\r\n" in data:
        assert all(line.endswith(b"\r\n") for line in after)
    assert answer.changed == (answer.result != data)


def _text(lines: list[bytes]) -> list[str]:
    return [line.decode() for line in lines]


@pytest.mark.parametrize(("name", "release"), editable())
def test_a_second_edit_changes_nothing(name: str, release: str) -> None:
    for mode in Mode:
        once = edited(case(name), release, mode)
        assert isinstance(once, Edit)
        twice = edited(once.result, release, mode)
        assert isinstance(twice, Edit)
        assert twice.result == once.result
        assert not twice.changed


@pytest.mark.parametrize(("name", "release"), editable())
def test_from_one_mode_to_the_other_and_back(name: str, release: str) -> None:
    for mode, other in ((Mode.DEFAULT, Mode.RUNTIMECLASS), (Mode.RUNTIMECLASS, Mode.DEFAULT)):
        first = edited(case(name), release, mode)
        direct = edited(case(name), release, other)
        assert isinstance(first, Edit)
        assert isinstance(direct, Edit)
        switched = edited(first.result, release, other)
        assert isinstance(switched, Edit)
        assert seen(switched.result, release) == seen(direct.result, release)
        again = edited(switched.result, release, mode)
        assert isinstance(again, Edit)
        assert seen(again.result, release) == seen(first.result, release)


@pytest.mark.parametrize(("name", "release"), editable())
def test_remove_gives_back_what_was_there(name: str, release: str) -> None:
    for mode in Mode:
        removal_gives_back(name, release, mode)


def removal_gives_back(name: str, release: str, mode: Mode) -> None:
    data = case(name)
    done = edited(data, release, mode)
    assert isinstance(done, Edit)
    undone = remove(done.result, containerd=release)
    assert isinstance(undone, Edit), undone
    assert "nvidia[" not in seen(undone.result, release)
    assert "default=nvidia " not in seen(undone.result, release)
    assert not Counter(comments(data)) - Counter(comments(undone.result))
    assert not [comment for comment in comments(undone.result) if "# provision:" in comment]
    same_version = meaning(data).get("version") == meaning(undone.result).get("version")
    if same_version and not name.startswith("nvidia") and name not in NOT_REMOVABLE_TO_INPUT:
        # A CRI plugin that was switched off stays on: a node can't go without it.
        assert seen(undone.result, release) == seen(data, release).replace(" (CRI off)", "")
        if not name.startswith("disabled") and name != "version-1-explicit":
            assert pruned(meaning(undone.result)) == pruned(meaning(data))


def test_a_removal_without_conversion_gives_back_the_bytes() -> None:
    for name in ("debian-stock", "kubeadm-systemd", "crun-default", "crlf-tabs", "literal-quotes", "default-21"):
        for mode in Mode:
            done = edited(case(name), "2.1.9", mode)
            assert isinstance(done, Edit)
            undone = remove(done.result, containerd="2.1.9")
            assert isinstance(undone, Edit)
            assert undone.result == case(name)


def test_the_deprecated_table_that_beats_the_default_name() -> None:
    data = case("default-runtime-table")
    done = edited(data, "1.7.24", Mode.DEFAULT)
    assert isinstance(done, Edit)
    assert seen(done.result, "1.7.24").startswith("default=nvidia ")
    assert seen(data, "1.7.24").startswith("default=default_runtime ")
    for back in (edited(done.result, "1.7.24", Mode.RUNTIMECLASS), remove(done.result, containerd="1.7.24")):
        assert isinstance(back, Edit)
        assert seen(back.result, "1.7.24").startswith("default=default_runtime ")
