"""Line and column of every key."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from provisioner.config.positions import KeyPath, key_positions
from provisioner.config.tomltext import toml_array, toml_key, toml_string

TEXT = '''\
# first
top = 1
[a.b]
c = """x
[not.a.table]
y = 1 """""
"d e".f = { g = 'h # no comment', i = [1, "]", { j = 2 }] }   # comment
[[list]]
name = "one"
[[list.inner]]
x = 1979-05-27 07:32:00
[[list.inner]]
x = 2
[[list]]
names = [
    "p", # a comment with ] and "
    'q',
]
[a]
z = true
'''


def test_every_key_of_a_text_full_of_traps() -> None:
    tomllib.loads(TEXT)
    assert key_positions(TEXT) == {
        ("top",): (2, 1),
        ("a",): (19, 2),
        ("a", "b"): (3, 4),
        ("a", "b", "c"): (4, 1),
        ("a", "b", "d e"): (7, 1),
        ("a", "b", "d e", "f"): (7, 7),
        ("a", "b", "d e", "f", "g"): (7, 13),
        ("a", "b", "d e", "f", "i"): (7, 35),
        ("a", "b", "d e", "f", "i", 0): (7, 40),
        ("a", "b", "d e", "f", "i", 1): (7, 43),
        ("a", "b", "d e", "f", "i", 2): (7, 48),
        ("a", "b", "d e", "f", "i", 2, "j"): (7, 50),
        ("list",): (8, 3),
        ("list", 0): (8, 3),
        ("list", 0, "name"): (9, 1),
        ("list", 0, "inner"): (10, 8),
        ("list", 0, "inner", 0): (10, 8),
        ("list", 0, "inner", 0, "x"): (11, 1),
        ("list", 0, "inner", 1): (12, 8),
        ("list", 0, "inner", 1, "x"): (13, 1),
        ("list", 1): (14, 3),
        ("list", 1, "names"): (15, 1),
        ("list", 1, "names", 0): (16, 5),
        ("list", 1, "names", 1): (17, 5),
        ("a", "z"): (20, 1),
    }


def paths(value: Any, before: KeyPath = ()) -> set[KeyPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: set[KeyPath] = set()
    for key, inner in items:
        found |= {(*before, key)} | paths(inner, (*before, key))
    return found


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
tables = st.dictionaries(text, st.one_of(text, st.lists(text, max_size=3)), max_size=4)


@given(st.dictionaries(text, tables, max_size=4))
def test_what_tomllib_finds_has_a_place_and_nothing_else_has(data: dict[str, dict[str, Any]]) -> None:
    lines = []
    for name, table in data.items():
        lines.append(f"[{toml_key(name)}]")
        for key, value in table.items():
            written = toml_string(value) if isinstance(value, str) else toml_array(value)
            lines.append(f'{toml_key(key)} = {written} # "')
    whole = "\n".join(lines)
    read = tomllib.loads(whole)
    assert read == data
    found = key_positions(whole)
    assert set(found) == paths(read)
    for path, (line, column) in found.items():
        if isinstance(path[-1], str):
            assert lines[line - 1][column - 1 :].startswith(toml_key(path[-1]))
