"""file, template, directory: what is planned for each state of the disk."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provisioner.errors import FactUnknown, PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.model.action import MakeDirectory, RemoveFile, Run, WriteFile
from provisioner.model.change import Disruption, Kind, Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.files.directory import Directory
from provisioner.tasks.files.file import File
from provisioner.tasks.files.template import Template
from provisioner.tasks.proof import assert_settles, changes, context_of, findings
from provisioner.tasks.task import build

MOTD = FileProbe("/etc/motd")


def state(content: str | None = "old\n", **more: Any) -> FileState:
    values: dict[str, Any] = {"kind": "file", "mode": 0o644, "owner": "root", "group": "root", "size": 4}
    return FileState(**{**values, "content": content, **more})


def test_a_missing_file_is_made() -> None:
    (change,) = assert_settles(File(path="/etc/motd", content="hi\n"), before={MOTD: None}, after={MOTD: state("hi\n")})
    assert change.kind is Kind.CREATE
    assert (change.before, change.after) == (None, "hi\n")
    assert change.actions == (WriteFile("/etc/motd", "hi\n"),)
    assert change.disruption is Disruption.NONE


def test_other_content_is_replaced_and_shown() -> None:
    (change,) = assert_settles(
        File(path="/etc/motd", content="hi\n"), before={MOTD: state("old\n")}, after={MOTD: state("hi\n")}
    )
    assert change.kind is Kind.UPDATE
    assert (change.before, change.after) == ("old\n", "hi\n")


def test_mode_and_owner_that_are_not_named_stay() -> None:
    assert not changes(File(path="/etc/motd", content="hi\n"), {MOTD: state("hi\n", mode=0o600, owner="web")})


def test_mode_and_owner_alone_are_changed_without_touching_content() -> None:
    (change,) = assert_settles(
        File(path="/etc/motd", content="hi\n", mode="0600", owner="web", group="www"),
        before={MOTD: state("hi\n")},
        after={MOTD: state("hi\n", mode=0o600, owner="web", group="www")},
    )
    assert change.summary == "mode 0644 → 0600; owner root → web; group root → www"
    assert change.before is None
    assert change.actions == (WriteFile("/etc/motd", "hi\n", mode=0o600, owner="web", group="www"),)


def test_attributes_of_a_file_whose_content_is_not_ours() -> None:
    probe = FileProbe("/etc/motd", content=False)
    (change,) = assert_settles(
        File(path="/etc/motd", mode=0o640, group="adm"),
        before={probe: state(None)},
        after={probe: state(None, mode=0o640, group="adm")},
    )
    (action,) = change.actions
    assert isinstance(action, Run)
    assert action.script == "chown :adm /etc/motd\nchmod 00640 /etc/motd\n"


def test_values_are_quoted_for_the_shell() -> None:
    path = "/etc/a b$(id)"
    (change,) = changes(File(path=path, owner="x;y"), {FileProbe(path, content=False): state(None)})
    assert isinstance(change.actions[0], Run)
    assert change.actions[0].script == "chown 'x;y' '/etc/a b$(id)'\n"


def test_a_link_is_followed_and_that_is_said() -> None:
    (change,) = changes(File(path="/etc/motd", content="hi\n"), {MOTD: state("old\n", link="/run/motd")})
    assert change.notes == ("/etc/motd is a link to /run/motd: the file there is changed and the link stays",)


def test_a_dangling_link_gets_its_file() -> None:
    (change,) = changes(File(path="/etc/motd", content="hi\n"), {MOTD: state(None, kind="dangling", link="/run/motd")})
    assert change.kind is Kind.CREATE
    assert "nothing is" in change.notes[0]


@pytest.mark.parametrize(("kind", "word"), [("directory", "a folder"), ("other", "a device")])
def test_what_is_no_file_is_not_replaced(kind: str, word: str) -> None:
    for want in ("present", "absent"):
        content = "hi\n" if want == "present" else None
        (found,) = findings(build_file(state=want, content=content), {MOTD: state(None, kind=kind)})
        assert isinstance(found, Refusal)
        assert word in found.what


def build_file(**fields: Any) -> File:
    task = build("file", {"path": "/etc/motd", **{name: value for name, value in fields.items() if value}})
    assert isinstance(task, File)
    return task


def test_absent_removes_a_file_and_shows_what_goes() -> None:
    (change,) = assert_settles(build_file(state="absent"), before={MOTD: state("old\n")}, after={MOTD: None})
    assert change.kind is Kind.DELETE
    assert change.before == "old\n"
    assert change.actions == (RemoveFile("/etc/motd"),)


def test_absent_removes_the_link_and_not_the_folder_behind_it() -> None:
    (change,) = changes(build_file(state="absent"), {MOTD: state(None, kind="directory", link="/srv")})
    assert change.summary == "link to /srv removed"
    assert change.actions == (RemoveFile("/etc/motd"),)


def test_unreadable_is_not_absent() -> None:
    with pytest.raises(FactUnknown, match="/etc/motd"):
        changes(File(path="/etc/motd", content="hi\n"), {MOTD: Unknown("/etc can't be searched")})


def test_a_new_file_with_a_secret_is_for_root_alone() -> None:
    (change,) = changes(File(path="/etc/motd", content="key=⟦secret:api⟧\n"), {MOTD: None})
    assert change.actions == (WriteFile("/etc/motd", "key=⟦secret:api⟧\n", mode=0o600),)


def test_a_file_that_everybody_may_read_loses_that_with_a_secret_in_it() -> None:
    """Whether the secret is new in it or not; a mode that the task names is the task's."""
    text = "key=⟦secret:api⟧\n"
    for before in ("key=\n", text):
        (change,) = changes(File(path="/etc/motd", content=text), {MOTD: state(before, mode=0o644)})
        assert change.actions == (WriteFile("/etc/motd", text, mode=0o640),)
        assert "mode 0644 → 0640" in change.summary
        assert "others lose their access" in change.notes[-1]
    assert not changes(File(path="/etc/motd", content=text), {MOTD: state(text, mode=0o640)})
    assert not changes(File(path="/etc/motd", content=text, mode="0644"), {MOTD: state(text, mode=0o644)})


def test_source_comes_from_beside_the_playbook() -> None:
    (change,) = changes(File(path="/etc/motd", source="motd"), {MOTD: None}, context_of(files={"motd": "hello\n"}))
    assert change.after == "hello\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path": "etc/motd"}, "can't be the path"),
        ({"path": "/etc/../x"}, "can't be the path"),
        ({"path": "/etc/motd", "mode": "rw-r--r--"}, "no file mode"),
        ({"path": "/etc/motd", "mode": "77777"}, "no file mode"),
        ({"path": "/etc/motd", "content": "a", "source": "b"}, "content and source"),
        ({"path": "/etc/motd", "state": "gone"}, "'present' or 'absent'"),
        ({"path": "/etc/motd", "contents": "a"}, "no field 'contents'"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PlaybookError, match=message):
        build("file", fields)


def test_template_writes_what_the_renderer_says() -> None:
    task = Template(source="chrony.conf.j2", path="/etc/motd", mode="0640")
    (change,) = assert_settles(
        task,
        before={MOTD: state("old\n", mode=0o640)},
        after={MOTD: state("server a\n", mode=0o640)},
        ctx=context_of(files={"chrony.conf.j2": "server a\n"}),
    )
    assert change.after == "server a\n"


def test_directory_is_made_and_settles() -> None:
    probe = FileProbe("/srv/models", content=False)
    folder = FileState("directory", 0o2775, "root", "ml", 4096)
    task = Directory(path="/srv/models", mode="2775", group="ml")
    (change,) = assert_settles(task, before={probe: None}, after={probe: folder})
    assert change.actions == (MakeDirectory("/srv/models", mode=0o2775, group="ml"),)
    (change,) = changes(task, {probe: dataclasses.replace(folder, mode=0o755)})
    assert change.summary == "mode 0755 → 2775"


def test_directory_refuses_a_file_in_its_place() -> None:
    (found,) = findings(Directory(path="/etc/motd"), {FileProbe("/etc/motd", content=False): state(None)})
    assert isinstance(found, Refusal)
    assert found.what == "/etc/motd is a file, not a folder"
