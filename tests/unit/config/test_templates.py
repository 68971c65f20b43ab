"""Templates: the site's before the shipped ones, values as data, errors with their place."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.config.document import Place
from provisioner.config.shipped import shipped
from provisioner.config.templates import Templates
from provisioner.errors import TemplateError

VALUES: dict[str, Any] = {"gpu": {"cards": 8}, "versions": {"driver": "580.95.05"}, "items": ["a", "b"]}
PLACE = Place(Path("book.toml"), 7, 3, "text")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "own" / "unit").mkdir(parents=True)
    (tmp_path / "own" / "unit" / "a.service").write_text(
        "[Unit]\n{% block unit %}\nDescription=shipped\n{% endblock %}\n[Service]\n"
        "{% block service %}\nExecStart={{ command }}\n{% endblock %}\n"
    )
    (tmp_path / "site" / "templates" / "unit").mkdir(parents=True)
    (tmp_path / "site" / "files").mkdir()
    return tmp_path / "site"


@pytest.fixture
def templates(site: Path) -> Templates:
    return Templates([site], site.parent / "own")


def test_a_site_overrides_a_file_or_one_block(templates: Templates, site: Path) -> None:
    values = {"command": "/bin/true"}
    assert templates.template("unit/a.service", values) == (
        "[Unit]\nDescription=shipped\n[Service]\nExecStart=/bin/true\n"
    )
    mine = site / "templates" / "unit" / "a.service"
    mine.write_text('{% extends "!shipped/unit/a.service" %}\n{% block unit %}\nDescription=mine\n{% endblock %}\n')
    fresh = Templates([site], site.parent / "own")
    assert fresh.template("unit/a.service", values) == "[Unit]\nDescription=mine\n[Service]\nExecStart=/bin/true\n"
    mine.write_text("all mine\n")
    assert Templates([site], site.parent / "own").template("unit/a.service", values) == "all mine\n"


def test_a_fields_single_expression_keeps_its_kind(templates: Templates) -> None:
    assert templates.value("{{ gpu.cards }}", VALUES, PLACE) == 8
    assert templates.value("{{ items }}", VALUES, PLACE) == ["a", "b"]
    assert templates.value("{{ gpu.cards == 8 }}", VALUES, PLACE) is True
    assert templates.value("{{ nothing | default(3) }}", VALUES, PLACE) == 3
    assert templates.value("{{ gpu.nothing | default('x') }}", VALUES, PLACE) == "x"
    assert templates.value(" {{ gpu.cards }}", VALUES, PLACE) == " 8"
    assert templates.value("{{ gpu.cards }}{{ gpu.cards }}", VALUES, PLACE) == "88"
    assert templates.value("no template\n", VALUES, PLACE) == "no template\n"


def test_a_variables_part_is_not_a_method(templates: Templates) -> None:
    assert templates.text("{{ ntp.items }} {{ ntp.keys }}", {"ntp": {"items": "i", "keys": "k"}}, "x") == "i k"


anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(anything)
def test_quote_makes_one_shell_word_of_anything(value: str) -> None:
    script = Templates([]).text("echo {{ value | quote }} end", {"value": value}, "x")
    assert shlex.split(script) == ["echo", value, "end"]


@given(st.one_of(anything, st.sampled_from(["{{ 7 * 7 }}", "{% raw %}", "$(id)", "`id`", "a\nb", "'\"", "{# #}"])))
def test_a_value_is_data_and_never_rendered_again(value: str) -> None:
    templates = Templates([])
    assert templates.value("{{ value }}", {"value": value}, PLACE) == value
    assert templates.text("<{{ value }}>", {"value": value}, "x") == f"<{value}>"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ versions.drivr }}", r"book.toml:7:3: text: the variable 'versions.drivr' isn't set\n.*'versions.driver'"),
        ("a {{ versons.driver }}", r"book.toml:7:3: text: the variable 'versons' isn't set\n  did you mean 'versions'"),
        ("a\nb {{ gpu.card }}", r"(?s)the variable 'gpu.card' isn't set.*'gpu.cards'.*line 2 of the text"),
        ("{{ 'x' | qote }}", r"No filter named 'qote'.\n  did you mean 'quote'"),
        ("{% if %}", r"book.toml:7:3: text: the template doesn't parse"),
        ("{{ gpu.cards + 'x' }}", r"the template doesn't render: unsupported operand"),
        ("{{ ''.__class__.__mro__ }}", r"(?s)text: "),
        ("{{ items.append('c') }} x", r"text: "),
    ],
)
def test_an_error_in_a_field_points_to_the_playbook(templates: Templates, source: str, says: str) -> None:
    with pytest.raises(TemplateError, match=says) as caught:
        templates.value(source, VALUES, PLACE)
    assert (caught.value.file, caught.value.line, caught.value.column) == (Path("book.toml"), 7, 3)


def test_templates_cannot_reach_python() -> None:
    with pytest.raises(TemplateError, match=r"unsafe|isn't set"):
        Templates([]).text("{{ ''.__class__.__mro__[1].__subclasses__() }}", {}, "x")
    kept = ["a"]
    with pytest.raises(TemplateError):
        Templates([]).text("{{ items.__init__.__globals__ }}", {"items": kept}, "x")


def test_an_error_in_a_file_has_its_line_and_column(templates: Templates, site: Path) -> None:
    path = site / "templates" / "motd"
    path.write_text("first\nsecond {{ versions.drivr }}\n")
    with pytest.raises(TemplateError) as caught:
        templates.template("motd", VALUES)
    assert (str(caught.value.file), caught.value.line, caught.value.column) == (str(path), 2, 20)
    assert "did you mean 'versions.driver'?" in str(caught.value)
    (site / "templates" / "broken").write_text("{% if true %}\n\n{% endfor %}\n")
    with pytest.raises(TemplateError, match=rf"{site}/templates/broken:3: the template doesn't parse"):
        templates.template("broken", VALUES)


def test_an_error_in_an_overridden_block_points_to_the_sites_file(templates: Templates, site: Path) -> None:
    mine = site / "templates" / "unit" / "a.service"
    mine.write_text('{% extends "!shipped/unit/a.service" %}\n{% block unit %}\n{{ nothing }}\n{% endblock %}\n')
    with pytest.raises(TemplateError, match=rf"{mine}:3:4: the variable 'nothing' isn't set"):
        templates.template("unit/a.service", {"command": "x"})


def test_an_unknown_template_or_file_names_the_likely_one(templates: Templates, site: Path) -> None:
    with pytest.raises(TemplateError, match=r"no template 'unit/a.servic'\n  did you mean 'unit/a.service'"):
        templates.template("unit/a.servic", {})
    (site / "files" / "motd").write_bytes(b"caf\xe9\n")
    assert templates.asset("motd").encode("utf-8", "surrogateescape") == b"caf\xe9\n"
    with pytest.raises(TemplateError, match=r"no file 'mot'\n  did you mean 'motd'"):
        templates.asset("mot")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../x"])
def test_names_stay_inside_their_folders(templates: Templates, name: str) -> None:
    with pytest.raises(TemplateError, match="leads out of the folder"):
        templates.asset(name)
    with pytest.raises(TemplateError, match="leads out of the folder"):
        templates.template(name, {})


def test_every_shipped_template_parses() -> None:
    templates = Templates([])
    jinja = [path for path in shipped("templates").rglob("*") if path.is_file() and "{{" in path.read_text()]
    for path in jinja:
        templates.environment.parse(path.read_text(), filename=str(path))
