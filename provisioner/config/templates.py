"""Jinja2 behind a small class: strict, sandboxed, and with errors that say where.

A site's `templates/NAME` beside its playbook or inventory is used instead of the shipped one of that name; a site
that only changes one block writes `{% extends "!shipped/NAME" %}` and that block.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from provisioner.config.document import Place, suggestion
from provisioner.config.shipped import shipped
from provisioner.errors import TemplateError
from provisioner.quoting import quote

SHIPPED = "!shipped/"
"""Prefix of a template's name that means the shipped one, even where the site has its own."""

_EXPRESSION = re.compile(r"\{\{((?:(?!\{\{|\}\}|\{%).)*)\}\}", re.DOTALL)
_MARKS = re.compile(r"\{[{%#]")


class _Unset(jinja2.UndefinedError):
    """A variable that isn't set was used; `inside` is the value that doesn't have `name`, or `missing`."""

    def __init__(self, message: str | None = None, *, name: str = "", inside: Any = missing) -> None:
        super().__init__(message)
        self.name, self.inside = name, inside


class _Strict(jinja2.StrictUndefined):
    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: Callable[..., jinja2.TemplateRuntimeError] = _Unset,
    ) -> None:
        super().__init__(hint, obj, name, functools.partial(_Unset, name=str(name), inside=obj))  # type: ignore[arg-type]


class _Environment(ImmutableSandboxedEnvironment):
    """Dots mean a variable's part first: a variable `ntp.items` isn't the method of a dict."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


class _Folders(jinja2.BaseLoader):
    """The site's folders first, then the shipped one."""

    def __init__(self, site: Sequence[Path], own: Path) -> None:
        self.site, self.own = tuple(site), own

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        for folder, name in self._places(template):
            path = folder / name
            if path.is_file():
                try:
                    return path.read_text(encoding="utf-8"), str(path), lambda: True
                except (OSError, UnicodeDecodeError) as error:
                    raise TemplateError("the template can't be read", why=str(error), file=path) from None
        raise jinja2.TemplateNotFound(template)

    def list_templates(self) -> list[str]:
        folders = (*self.site, self.own)
        return sorted({str(path.relative_to(top)) for top in folders for path in top.rglob("*") if path.is_file()})

    def _places(self, template: str) -> list[tuple[Path, str]]:
        name = template.removeprefix(SHIPPED)
        if not _inside(name):
            raise TemplateError(f"{template!r} is no template's name", why="it leads out of the folder of templates")
        return [(folder, name) for folder in (() if name != template else self.site)] + [(self.own, name)]


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


class Templates:
    """Implements `tasks.context.Renderer`. One for a run; used by several threads."""

    def __init__(self, beside: Sequence[Path], own: Path | None = None) -> None:
        """`beside`: folders that may hold `templates/` and `files/`, the strongest first."""
        self.beside = tuple(dict.fromkeys(beside))
        self.loader = _Folders([folder / "templates" for folder in self.beside], own or shipped("templates"))
        self.environment = _Environment(
            loader=self.loader,
            undefined=_Strict,
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self.environment.filters["quote"] = lambda value: quote(str(value))
        self._compiled: dict[tuple[str, str], jinja2.Template] = {}
        self._expressions: dict[str, Callable[..., Any]] = {}

    def text(self, source: str, values: Mapping[str, Any], name: str) -> str:
        """Render a template given as text; `name` stands for it in errors. Raises TemplateError."""
        if not _MARKS.search(source):
            return source
        try:
            return self._from_text(source, name).render(values)
        except Exception as error:
            self._fail(error, values, source=source, name=name)

    def template(self, name: str, values: Mapping[str, Any]) -> str:
        """Render a template file: the site's, else the shipped one. Raises TemplateError."""
        try:
            return self.environment.get_template(name).render(values)
        except Exception as error:
            self._fail(error, values, name=name)

    def asset(self, name: str) -> str:
        """The site's file `files/NAME`, unrendered; bytes that aren't UTF-8 as surrogates. Raises TemplateError."""
        folders = [folder / "files" for folder in self.beside]
        if not _inside(name):
            raise TemplateError(f"{name!r} is no file's name", why="it leads out of the folder `files`")
        for folder in folders:
            if (folder / name).is_file():
                try:
                    return (folder / name).read_bytes().decode("utf-8", "surrogateescape")
                except OSError as error:
                    raise TemplateError("the file can't be read", why=str(error), file=folder / name) from None
        known = [str(path.relative_to(top)) for top in folders for path in top.rglob("*") if path.is_file()]
        raise TemplateError(
            f"there is no file {name!r}",
            why=suggestion(name, known) or f"looked in {', '.join(map(str, folders)) or 'no folder'}",
        )

    def value(self, source: str, values: Mapping[str, Any], place: Place) -> Any:
        """A field's text: exactly one `{{ expression }}` gives its value as it is, anything else text."""
        if not _MARKS.search(source):
            return source
        try:
            whole = _EXPRESSION.fullmatch(source)
            if whole is None:
                return self._from_text(source, place.what).render(values)
            compiled = self._expressions.get(source)
            if compiled is None:
                compiled = self.environment.compile_expression(whole[1].strip(), undefined_to_none=False)
                self._expressions[source] = compiled
            found = compiled(values)
            if isinstance(found, jinja2.Undefined):
                str(found)  # raises _Unset
            return found
        except Exception as error:
            self._fail(error, values, source=source, name=place.what, place=place)

    def _from_text(self, source: str, name: str) -> jinja2.Template:
        found = self._compiled.get((name, source))
        if found is None:
            code = self.environment.compile(source, name=name, filename=name)
            found = jinja2.Template.from_code(self.environment, code, self.environment.make_globals(None))
            self._compiled[name, source] = found
        return found

    def _fail(
        self, error: Exception, values: Mapping[str, Any], *, name: str, source: str = "", place: Place | None = None
    ) -> NoReturn:
        """Raise a TemplateError that says what `error` means and where it happened."""
        if isinstance(error, TemplateError):
            raise error
        what, why, remedy = self._explain(error, values)
        file, line = _where(error, name)
        written = source if file == name else _lines_of(file)
        column = _column(error, written, line)
        if place is not None and file == name:
            more = f"line {line} of the text" if line and line > 1 else ""
            raise TemplateError(
                f"{place.what}: {what}",
                why="; ".join(part for part in (why, more) if part),
                remedy=remedy,
                file=place.file,
                line=place.line,
                column=place.column,
            ) from error
        raise TemplateError(what, why=why, remedy=remedy, file=file, line=line, column=column) from error

    def _explain(self, error: Exception, values: Mapping[str, Any]) -> tuple[str, str, str]:
        if isinstance(error, _Unset):
            known = error.inside if isinstance(error.inside, Mapping) else values if error.inside is missing else {}
            table = _path_of(error.inside, values)
            full = f"{table}.{error.name}" if table else error.name
            what = f"the variable {full!r} isn't set" if known or table else str(error.message)
            names = {key: f"{table}.{key}" if table else key for key in map(str, known)}
            close = get_close_matches(error.name, names, 1)
            why = f"did you mean {names[close[0]]!r}?" if close else suggestion(full, names.values())
            return what, why, "set it in the inventory, or use `| default(…)`"
        if isinstance(error, jinja2.TemplateNotFound):
            existing = self.loader.list_templates()
            return f"there is no template {error.name!r}", suggestion(str(error.name), existing), ""
        if isinstance(error, jinja2.TemplateSyntaxError):
            unknown = re.search(r"No (filter|test) named '(\w+)'", error.message or "")
            known_words = {"filter": self.environment.filters, "test": self.environment.tests}
            why = suggestion(unknown[2], known_words[unknown[1]]) if unknown else ""
            return f"the template doesn't parse: {error.message}", why, ""
        if isinstance(error, jinja2.exceptions.SecurityError):
            return f"the template does what it may not: {error}", "templates only read variables", ""
        return f"the template doesn't render: {error}", type(error).__name__, ""


def _path_of(inside: Any, values: Mapping[str, Any], before: str = "") -> str:
    """The dotted name of a table of variables, found by identity; "" for none."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            name = f"{before}{key}"
            if value is inside:
                return name
            deeper = _path_of(inside, value, f"{name}.")
            if deeper:
                return deeper
    return ""


def _where(error: Exception, name: str) -> tuple[str, int | None]:
    """File (or the name of a text) and line: jinja2 rewrites tracebacks so that templates have frames."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return str(error.filename or error.name or name), error.lineno
    place: tuple[str, int | None] = (name, None)
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _lines_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _column(error: Exception, source: str, line: int | None) -> int | None:
    """jinja2 knows no columns; a name that stands once in its line tells it."""
    if not isinstance(error, _Unset) or line is None:
        return None
    lines = source.splitlines()
    found = [match.start() for match in re.finditer(rf"\b{re.escape(error.name)}\b", lines[line - 1])] if lines else []
    return found[0] + 1 if len(found) == 1 else None
