"""line: one line of somebody else's file, every other byte as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.model.change import Kind
from provisioner.tasks.files.line import Line
from provisioner.tasks.proof import assert_settles, changes
from provisioner.tasks.task import build

CONF = FileProbe("/etc/x.conf")


def line(**fields: Any) -> Line:
    return Line(path="/etc/x.conf", **fields)


def state(content: str) -> FileState:
    return FileState("file", 0o640, "root", "adm", len(content), content)


@pytest.mark.parametrize(
    ("fields", "before", "after"),
    [
        ({"line": "b=1"}, "a=1\n", "a=1\nb=1\n"),
        ({"line": "b=1"}, "a=1", "a=1\nb=1\n"),
        ({"line": "b=1"}, "", "b=1\n"),
        ({"line": "b=1"}, "a=1\r\n", "a=1\r\nb=1\r\n"),
        ({"line": "b=1"}, "a=1\nb=1", "a=1\nb=1"),
        ({"line": "b=1", "match": "^b="}, "a=1\nb=0\nc=1\n", "a=1\nb=1\nc=1\n"),
        ({"line": "b=1", "match": "^b="}, "a=1\r\nb=0\r\nc=1", "a=1\r\nb=1\r\nc=1"),
        ({"line": "b=1", "match": "^#?b="}, "#b=0\na=1\nb=2\n", "b=1\na=1\n"),
        ({"line": "b=1", "match": "^b="}, "a=1\nb=0", "a=1\nb=1"),
        ({"line": "z", "match": "^b="}, "z\n", "z\n"),  # a line that its own pattern doesn't match settles, too
        ({"line": "b=1", "after": r"^\[x\]"}, "[x]\nq\n[y]\n", "[x]\nb=1\nq\n[y]\n"),
        ({"line": "b=1", "after": r"^\[x\]"}, "[y]\n", "[y]\nb=1\n"),
        ({"line": "b=1", "after": "^a"}, "a\r\nc", "a\r\nb=1\r\nc"),
        ({"line": "b=1", "state": "absent"}, "a\nb=1\n\nc\nb=1", "a\n\nc\n"),
        ({"match": "^b", "state": "absent"}, "\nbx\nab\n", "\nab\n"),
        ({"match": "^b", "state": "absent"}, "b\n", ""),
        ({"line": "b", "state": "absent"}, "a\x0bb\u2028b\n", "a\x0bb\u2028b\n"),  # only line feeds end lines
    ],
)
def test_edits(fields: dict[str, Any], before: str, after: str) -> None:
    assert line(**fields).edit(before) == after
    assert line(**fields).edit(after) == after


@given(
    st.text(st.sampled_from("ab=\n\r#"), max_size=40),
    st.sampled_from(["b=1", "a", "#b"]),
    st.sampled_from([None, "^b", "a"]),
    st.sampled_from([None, "^a", "#"]),
    st.sampled_from(["present", "absent"]),
)
def test_a_second_edit_changes_nothing(
    content: str, text: str, match: str | None, after: str | None, want: Any
) -> None:
    task = line(line=text, match=match, after=after, state=want)
    once = task.edit(content)
    assert task.edit(once) == once
    there = [found.removesuffix("\r") for found in once.split("\n")]
    assert (text in there) is (want == "present")


def test_mode_and_owner_stay_and_the_difference_is_shown() -> None:
    (change,) = assert_settles(
        line(line="b=1", match="^b="), before={CONF: state("b=0\n")}, after={CONF: state("b=1\n")}
    )
    assert (change.before, change.after, change.kind) == ("b=0\n", "b=1\n", Kind.UPDATE)


def test_a_missing_file_is_made_only_on_request() -> None:
    (announced,) = changes(line(line="b=1"), {CONF: None})
    assert announced.provisional
    (created,) = changes(line(line="b=1", create=True), {CONF: None})
    assert (created.kind, created.after) == (Kind.CREATE, "b=1\n")
    assert not changes(line(line="b=1", state="absent"), {CONF: None})


@pytest.mark.parametrize(
    "fields",
    [{"line": "a\nb"}, {}, {"line": "a", "match": "("}, {"line": "a", "after": "["}, {"state": "absent"}],
)
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlaybookError):
        build("line", {"path": "/etc/x.conf", **fields})


def test_a_secret_in_a_file_that_others_may_read_is_pointed_out_and_their_access_stays() -> None:
    """/etc/environment is everybody's: the rest of it must stay readable."""
    open_to_all = FileState("file", 0o644, "root", "root", 4, "a=1\n")
    (change,) = changes(line(line="b=⟦secret:api⟧"), {CONF: open_to_all})
    assert "mode" not in change.summary
    assert "everybody may read it (0644)" in change.notes[-1]
    (closed,) = changes(line(line="b=⟦secret:api⟧", mode="0600"), {CONF: open_to_all})
    assert "mode 0644 → 0600" in closed.summary
