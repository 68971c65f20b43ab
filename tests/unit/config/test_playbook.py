"""A playbook becomes stages, and a host's tasks are rendered and made from them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provisioner.config.playbook import applies, build_tasks, load_playbook
from provisioner.config.sitetasks import load_tasks
from provisioner.config.templates import Templates
from provisioner.errors import FactUnknown, PlaybookError, TemplateError
from provisioner.model.inventory import Level
from provisioner.tasks.task import REGISTRY, build

VALUES = {"host": {"name": "gpu01"}, "gpu": {"cards": 8}, "motd": "it's {{ x }} $(id)\n", "list": ["a b", "c"]}
HEAD = '[[stages]]\nname = "site"\n[[stages.tasks]]\ntask = "t"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "book.toml"
    path.write_text(text)
    return path


def made(path: Path, values: Mapping[str, Any] = VALUES) -> list[tuple[str, dict[str, Any]]]:
    book = load_playbook(str(path))
    found = build_tasks(book, values, Templates([book.beside]), lambda name, table: (name, dict(table)))
    return [one.task for one in found]


def test_stages_tasks_and_variables_are_read(tmp_path: Path) -> None:
    book = load_playbook(
        str(write(tmp_path, f'[vars]\na.b = 1\ncontainerd.mode = "runtimeclass"\n{HEAD}label = "x"\npath = "/p"\n'))
    )
    entry = book.stages[0].tasks[0]
    assert (book.name, book.stages[0].name, entry.task, entry.label, entry.table) == (
        "book",
        "site",
        "t",
        "x",
        {"path": "/p"},
    )
    assert entry.where == "book.toml:6"
    assert {name: (value.value, value.level) for name, value in book.vars.items()} == {
        "a.b": (1, Level.PLAYBOOK),
        "containerd.mode": ("runtimeclass", Level.PLAYBOOK),
    }


def test_strings_are_rendered_at_any_depth_and_values_stay_data(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        HEAD + 'n = "{{ gpu.cards }}"\nall = "{{ list }}"\ntext = "<{{ motd }}>"\nargs = ["{{ host.name }}", 1]\n'
        'deep = { a = ["{{ motd }}"], b = true }\n',
    )
    assert made(path) == [
        (
            "t",
            {
                "n": 8,
                "all": ["a b", "c"],
                "text": "<it's {{ x }} $(id)\n>",
                "args": ["gpu01", 1],
                "deep": {"a": ["it's {{ x }} $(id)\n"], "b": True},
            },
        )
    ]


def test_a_task_that_variables_rule_out_is_not_rendered(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + 'when = "defined(proxy) and systemd"\nurl = "{{ proxy }}"\n')
    assert made(path) == []
    assert made(path, {**VALUES, "proxy": "http://p"}) == [("t", {"url": "http://p"})]


def test_facts_decide_later(tmp_path: Path) -> None:
    book = load_playbook(str(write(tmp_path, HEAD + "when = \"distribution == 'debian12'\"\n")))
    entry = book.stages[0].tasks[0]
    assert applies(book, entry, VALUES, {"distribution": "debian12"})
    assert not applies(book, entry, VALUES, {"distribution": "debian13"})
    with pytest.raises(FactUnknown, match="distribution couldn't be read"):
        applies(book, entry, VALUES, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"book.toml: the playbook has no stages\n  add \[\[stages\]\]"),
        ('[[stage]]\nname = "a"\n', r"book.toml:1:3: unknown key 'stage' in the top level\n  did you mean 'stages'"),
        ("[[stages]]\ntasks = []\n", r"book.toml:1:3: a stage has no name"),
        ('[[stages]]\nname = "a"\ntsks = []\n', r"book.toml:3:1: unknown key 'tsks' in \[stages\]\n.*'tasks'"),
        ('[[stages]]\nname = "a"\n[[stages]]\nname = "a"\n', r"book.toml:4:1: two stages are named 'a'"),
        ('[[stages]]\nname = "a"\n[[stages.tasks]]\npath = "x"\n', r"book.toml:3:10: .*doesn't say which task"),
        (HEAD + "when = true\n", r"book.toml:5:1: stages.tasks.when must be a string, not the boolean true"),
        (HEAD + 'when = "gpu.cards = 8"\n', r"book.toml:5:19: when: '=' can't stand here"),
        (HEAD + "x = 1\n[vars]\ncontainerd.mode = 1\n", r'book.toml:7:12: vars.containerd.mode must be "default"'),
        (HEAD + "x = 1\n[vars]\ncontainerd.mod = 1\n", r"book.toml:7:12: containerd.mod can't be set in vars"),
        (HEAD + 'x = 1\n[vars]\np = { secret = "p", from = "prompt" }\n', r"book.toml:7:1: a secret can't stand in"),
        ("[[stages]\n", r"book.toml:1:\d+: this isn't TOML"),
    ],
)
def test_a_wrong_playbook_says_where(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PlaybookError, match=says):
        load_playbook(str(write(tmp_path, text)))


def test_an_undefined_variable_says_where_and_what_was_meant(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + 'path = "/x"\ntext = "{{ gpu.card }}"\n')
    with pytest.raises(TemplateError, match=r"book.toml:6:1: text: the variable 'gpu.card' isn't set\n.*'gpu.cards'"):
        made(path)
    path = write(tmp_path, HEAD + 'when = "gpu.crds == 8"\n')
    with pytest.raises(PlaybookError, match=r"book.toml:5:9: when: the variable 'gpu.crds' isn't set\n.*'gpu.cards'"):
        made(path)


def test_an_unknown_playbook_names_those_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, HEAD)
    monkeypatch.setattr("provisioner.config.playbook.shipped", lambda kind: tmp_path)
    assert load_playbook("book").name == "book"
    with pytest.raises(PlaybookError, match=r"no playbook named 'bok'\n  did you mean 'book'"):
        load_playbook("bok")
    assert load_playbook("book.toml", beside=tmp_path).path == tmp_path / "book.toml"
    with pytest.raises(PlaybookError, match=r"no such file\n  did you mean 'book.toml'"):
        load_playbook("boook.toml", beside=tmp_path)


SITE_TASK = '''\
"""Notes of a site."""
from provisioner.tasks.task import Task, task


@task("{name}")
class Motd(Task):
    """Keep a note."""

    text: str
    mode: int = 0o644
'''


def test_a_sites_own_task_is_found_beside_the_playbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.tasks.task.REGISTRY", dict(REGISTRY))
    (tmp_path / "tasks").mkdir()
    file = tmp_path / "tasks" / "motd.py"
    file.write_text(SITE_TASK.replace("{name}", "acme.note"))
    (tmp_path / "tasks" / "_ignored.py").write_text("raise RuntimeError\n")
    path = write(tmp_path, HEAD.replace('"t"', '"acme.note"') + 'text = "{{ host.name }}"\n')
    book = load_playbook(str(path))
    first = book.digest
    load_tasks(book.task_names, REGISTRY.keys(), book.tasks_folder)
    load_tasks(book.task_names, REGISTRY.keys(), book.tasks_folder)
    task: Any = build_tasks(book, VALUES, Templates([]), build)[0].task
    assert task.text == "gpu01"
    file.write_text(file.read_text() + "\n")
    assert load_playbook(str(path)).digest != first

    def wrong(line: str, says: str) -> None:
        book = load_playbook(str(write(tmp_path, HEAD.replace('"t"', '"acme.note"') + line)))
        with pytest.raises(PlaybookError, match=says):
            build_tasks(book, VALUES, Templates([]), build)

    wrong('txt = "x"\n', r"book.toml:5:1: task acme.note has no field 'txt'\n  did you mean 'text'")
    wrong('text = "x"\nmode = "rw"\n', r"book.toml:6:1: field 'mode' of task acme.note: expected an integer, not 'rw'")
    wrong("", r"book.toml:4:1: task acme.note needs the field 'text'")
    book = load_playbook(str(write(tmp_path, HEAD.replace('"t"', '"acme.nota"'))))
    with pytest.raises(PlaybookError, match=r"book.toml:4:1: no task is named 'acme.nota'\n  did you mean 'acme.note'"):
        build_tasks(book, VALUES, Templates([]), build)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\n\nraise RuntimeError('boom')\n", 3, "boom"),
        ("def f(:\n", 1, "invalid syntax"),
        ("import nothing_of_that_name\n", 1, "No module named"),
    ],
)
def test_a_broken_file_of_a_site_says_where(tmp_path: Path, text: str, line: int, says: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(PlaybookError, match=says) as caught:
        load_tasks((), (), tmp_path)
    assert (caught.value.file, caught.value.line) == (tmp_path / "bad.py", line)
    assert not [name for name in sys.modules if name.startswith("provision_site_tasks") and name.endswith("_bad")]


class Point:
    """An entry point as importlib.metadata gives it."""

    name, value = "acme", "acme.tasks"

    class dist:
        name = "acme-provision"

    def load(self) -> None:
        raise ImportError("no libacme")


def test_a_broken_package_hurts_only_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def entry_points(group: str) -> list[Point]:
        asked.append(group)
        return [Point()]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    load_tasks(["known"], ["known"], None)
    assert asked == []
    with pytest.raises(PlaybookError, match=r"(?s)acme-provision can't be imported: no libacme.*acme = acme.tasks"):
        load_tasks(["other"], ["known"], None)
    assert asked == ["provisioner.tasks"]
