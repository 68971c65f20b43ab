"""toml.merge: values in somebody else's TOML, comments and order kept."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tomlkit.exceptions import TOMLKitError

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.model.change import Kind, Refusal
from provisioner.tasks.files.toml_merge import TomlMerge, merged, same
from provisioner.tasks.proof import assert_settles, changes, findings
from provisioner.tasks.task import build

CONF = FileProbe("/etc/x.toml")
SITE = """\
# site's own file
disable-require = false  # keep

[cli]
environment = []
debug = "/var/log/cli.log"   # noisy
# load-kmods = true

[cli.deep]
x = 1
"""


def state(content: str) -> FileState:
    return FileState("file", 0o644, "root", "root", len(content), content)


def test_values_are_merged_and_the_rest_stays() -> None:
    values = {"cli": {"environment": ["A=1"], "deep": {"y": 2}}, "disable-require": True}
    assert merged(SITE, values, ["cli.debug", "cli.nothing"]) == (
        SITE.replace("false  # keep", "true  # keep")
        .replace("environment = []", 'environment = ["A=1"]')
        .replace('debug = "/var/log/cli.log"   # noisy\n', "")
        .replace("x = 1\n", "x = 1\ny = 2\n")
    )


@pytest.mark.parametrize(
    "content",
    [SITE, "", "a = 1", "\ufeffa = 1\n", SITE.replace("\n", "\r\n"), "a = {b = 1}\n", "[x]\n[y]\n[x.z]\na=1\n"],
)
def test_nothing_to_do_changes_no_byte(content: str) -> None:
    plain = tomllib.loads(content.removeprefix("\ufeff"))
    assert merged(content, plain) == content


def test_byte_order_mark_and_line_ends_survive() -> None:
    assert merged("\ufeffa = 1\r\n", {"b": {"c": 2}}) == "\ufeffa = 1\r\n\r\n[b]\r\nc = 2\r\n"


def test_a_table_in_an_inline_table() -> None:
    assert tomllib.loads(merged("a = {b = 1}\n", {"a": {"c": {"d": 2}}})) == {"a": {"b": 1, "c": {"d": 2}}}


def test_one_and_true_are_not_the_same() -> None:
    assert merged("a = 1\n", {"a": True}) == "a = true\n"
    assert not same(1, 1.0)
    assert same({"a": [1, {"b": 2}]}, {"a": (1, {"b": 2})})


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 5), st.sampled_from(["", "x", 'q"\\'])),
    lambda below: st.one_of(
        st.lists(below, max_size=2), st.dictionaries(st.sampled_from(["a", "b", "c.d", "e f"]), below, max_size=3)
    ),
    max_leaves=6,
)
TABLES = st.dictionaries(st.sampled_from(["cli", "disable-require", "new", "a.b"]), VALUES, max_size=3)


@given(TABLES)
def test_what_is_merged_is_there_and_a_second_merge_does_nothing(values: dict[str, Any]) -> None:
    try:
        once = merged(SITE, values)
    except (ValueError, TOMLKitError):
        return  # refused: nothing is written
    assert merged(once, values) == once
    assert "# site's own file" in once


def test_a_file_that_is_not_toml_is_refused() -> None:
    (found,) = findings(TomlMerge(path="/etc/x.toml", values={"a": 1}), {CONF: state("a = = 1\n")})
    assert isinstance(found, Refusal)
    assert found.what == "/etc/x.toml can't be edited"


def test_missing_files() -> None:
    (announced,) = changes(TomlMerge(path="/etc/x.toml", values={"a": 1}), {CONF: None})
    assert announced.provisional
    (made,) = assert_settles(
        TomlMerge(path="/etc/x.toml", values={"a": 1}, create=True), before={CONF: None}, after={CONF: state("a = 1\n")}
    )
    assert made.kind is Kind.CREATE


def test_nothing_to_merge_is_an_error() -> None:
    with pytest.raises(PlaybookError):
        build("toml.merge", {"path": "/etc/x.toml"})
