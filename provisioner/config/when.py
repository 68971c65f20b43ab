"""`when`: a small closed grammar over variables and facts. It decides, and can do nothing else.

    condition   = all { "or" all }
    all         = one { "and" one }
    one         = "not" one | comparison
    comparison  = operand [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in" ) operand ]
    operand     = NAME | STRING | INTEGER | "true" | "false" | "[" [ operand { "," operand } ] "]"
                | "(" condition ")" | "defined" "(" NAME ")"

A fact that couldn't be read makes its part of the condition unknown, and the whole only where the other parts
don't decide (`false and UNKNOWN` is false). A fact that is absent equals nothing and counts as false.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.config.document import suggestion
from provisioner.config.schema import describe
from provisioner.errors import FactUnknown
from provisioner.model.fact import Absent, Known, Unknown

FACTS = ("distribution", "family", "arch", "systemd", "kubelet")
"""Facts that a condition may name: "debian12", "debian", "amd64", systemd running (boolean), the active kubelet's
unit name or ""."""

NOT_YET = {name: Unknown("the host hasn't been read yet") for name in FACTS}
"""What to evaluate with before the first observation."""

_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:\\.|[^\"\\])*\"|'[^']*')|(?P<integer>-?\d+)\b"
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)|(?P<sign>==|!=|<=|>=|<|>|[()\[\],]))"
)
_WORDS = frozenset({"and", "or", "not", "in", "true", "false", "defined"})
_SIGNS = ("==", "!=", "<=", ">=", "<", ">")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class WhenError(ValueError):
    """A condition doesn't parse or can't be evaluated; `column` from 1 within its text."""

    def __init__(self, what: str, column: int, why: str = "") -> None:
        super().__init__(what)
        self.what, self.column, self.why = what, column, why


@dataclass(frozen=True, slots=True)
class _Node:
    """`kind` "value", "name", "defined", "array", "not", "and", "or" or a sign of comparison; `column` from 1."""

    kind: str
    column: int
    value: Any = None
    parts: tuple[_Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    text: str
    root: _Node

    def decide(self, values: Mapping[str, Any], facts: Mapping[str, Any]) -> bool | Unknown:
        """True, false, or Unknown with its reason. `values` is the nested namespace of variables; `facts` maps
        the names of FACTS to Known, Absent, Unknown or plain values. Raises WhenError."""
        found = _evaluate(self.root, values, facts)
        return found if isinstance(found, Unknown) else _truth(found, self.root)

    def evaluate(self, values: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """As `decide`; raises FactUnknown where the answer hangs on a fact that couldn't be read."""
        found = self.decide(values, facts)
        if isinstance(found, Unknown):
            raise FactUnknown(
                f"can't tell whether `{self.text}` holds",
                why=found.reason,
                remedy="mend what keeps it from being read, then plan again",
            )
        return found


def parse(text: str) -> Condition:
    """The condition of a text. Raises WhenError with the column."""
    parser = _Parser(text)
    root = parser.condition()
    parser.end()
    return Condition(text, root)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                column = at + len(text[at:]) - len(text[at:].lstrip()) + 1
                wrong = text[column - 1]
                why = "compare with ==" if wrong == "=" else "a string isn't closed" if wrong in "\"'" else ""
                raise WhenError(f"{wrong!r} can't stand here", column, why)
            self.tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
            at = match.end()
        self.tokens.append(("end", "", len(text) + 1))
        self.at = 0

    def condition(self) -> _Node:
        return self._chain("or", lambda: self._chain("and", self._one))

    def end(self) -> None:
        kind, word, column = self.tokens[self.at]
        if kind != "end":
            why = suggestion(word, ("and", "or", "in", "not")) if kind == "name" else ""
            raise WhenError(f"{word!r} can't stand here", column, why or "expected `and`, `or` or the end")

    def _chain(self, word: str, part: Any) -> _Node:
        column = self.tokens[self.at][2]
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else _Node(word, column, parts=tuple(parts))

    def _one(self) -> _Node:
        column = self.tokens[self.at][2]
        if self._take("not"):
            return _Node("not", column, parts=(self._one(),))
        left = self._operand()
        column = self.tokens[self.at][2]
        sign = next((sign for sign in _SIGNS if self._take(sign)), "")
        if not sign and self._take("in"):
            sign = "in"
        elif not sign and self._take("not"):
            self._expect("in")
            sign = "not in"
        return _Node(sign, column, parts=(left, self._operand())) if sign else left

    def _operand(self) -> _Node:
        kind, word, column = self.tokens[self.at]
        self.at += kind != "end"
        if kind == "string":
            inner = word[1:-1]
            if word[0] == '"':
                inner = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), inner)
            return _Node("value", column, inner)
        if kind == "integer":
            return _Node("value", column, int(word))
        if word in ("true", "false"):
            return _Node("value", column, word == "true")
        if word == "(":
            inside = self.condition()
            self._expect(")")
            return inside
        if word == "[":
            return self._array(column)
        if word == "defined":
            self._expect("(")
            named, name, where = self.tokens[self.at]
            if named != "name" or name in _WORDS:
                raise WhenError("`defined` needs a name", where)
            self.at += 1
            self._expect(")")
            return _Node("defined", column, name)
        if kind == "name" and word not in _WORDS:
            return _Node("name", column, word)
        raise WhenError(f"{word!r} can't stand here" if word else "the condition ends too early", column)

    def _array(self, column: int) -> _Node:
        parts: list[_Node] = []
        while not self._take("]"):
            if parts:
                self._expect(",")
            parts.append(self._operand())
        return _Node("array", column, parts=tuple(parts))

    def _take(self, word: str) -> bool:
        kind, found, _ = self.tokens[self.at]
        taken = found == word and kind in ("name", "sign")
        self.at += taken
        return taken

    def _expect(self, word: str) -> None:
        _, found, column = self.tokens[self.at]
        if not self._take(word):
            raise WhenError(f"{found!r} can't stand here" if found else f"{word!r} is missing", column)


def _lookup(name: str, values: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether the name is defined, and its value: plain, None when absent, or Unknown."""
    if name in FACTS:
        fact = facts.get(name, Unknown(f"{name} couldn't be read"))
        if isinstance(fact, Absent):
            return False, None
        return True, fact.value if isinstance(fact, Known) else fact
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return False, None
        found = found[part]
    return True, found


def _evaluate(node: _Node, values: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
    if node.kind == "value":
        return node.value
    if node.kind in ("name", "defined"):
        defined, value = _lookup(node.value, values, facts)
        if node.kind == "defined":
            return value if isinstance(value, Unknown) else defined
        if not defined and node.value not in FACTS:
            raise WhenError(
                f"the variable {node.value!r} isn't set",
                node.column,
                suggestion(node.value, [*FACTS, *_names(values)]) or f"ask defined({node.value}) first",
            )
        return value
    if node.kind in ("and", "or"):
        return _junction(node, values, facts)
    found = [_evaluate(part, values, facts) for part in node.parts]
    unknown = next((value for value in found if isinstance(value, Unknown)), None)
    if unknown is not None:
        return unknown
    if node.kind == "array":
        return found
    if node.kind == "not":
        return not _truth(found[0], node.parts[0])
    return _compare(node, found[0], found[1])


def _junction(node: _Node, values: Mapping[str, Any], facts: Mapping[str, Any]) -> bool | Unknown:
    """`and` and `or` from left to right; a part that decides makes the others and their unknowns irrelevant."""
    decisive = node.kind == "or"
    unknown: Unknown | None = None
    for part in node.parts:
        found = _evaluate(part, values, facts)
        if isinstance(found, Unknown):
            unknown = unknown or found
        elif _truth(found, part) is decisive:
            return decisive
    return unknown or (not decisive)


def _truth(value: Any, node: _Node) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        named = f" {node.value!r}" if node.kind == "name" else ""
        raise WhenError(f"the value{named} is {describe(value)}, not true or false", node.column, "compare it")
    return value


def _compare(node: _Node, left: Any, right: Any) -> bool:
    if node.kind in ("in", "not in"):
        if not isinstance(right, list | tuple):
            raise WhenError(f"`in` needs an array on its right, not {describe(right)}", node.column)
        return (left in right) is (node.kind == "in")
    if left is None or right is None:  # an absent fact equals nothing
        return node.kind == "!="
    if type(left) is not type(right):
        raise WhenError(f"{describe(left)} is compared with {describe(right)}", node.column)
    if node.kind in ("==", "!="):
        return (left == right) is (node.kind == "==")
    one, other = _ordered(left, node), _ordered(right, node)
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[node.kind]


def _ordered(value: Any, node: _Node) -> tuple[int, ...]:
    """Integers, and versions: "580.95.05" is compared number by number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)*", value):
        return tuple(int(part) for part in value.split("."))
    raise WhenError(f"{describe(value)} has no order", node.column, "only integers and versions have")


def _names(values: Mapping[str, Any], before: str = "") -> list[str]:
    names: list[str] = []
    for key, value in values.items():
        names += _names(value, f"{before}{key}.") if isinstance(value, Mapping) else [f"{before}{key}"]
    return names
