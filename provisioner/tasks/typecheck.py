"""Does a TOML value fit a field's annotation?"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin


def mismatch(value: Any, hint: Any) -> str:
    """ "" when the value fits, else what was expected and what is there.

    Knows str, int, float, bool, Any, None, Literal, unions, tuple[X, ...] (a TOML array) and Mapping/dict.
    """
    return "" if _fits(value, hint) else f"expected {_name(hint)}, not {value!r}"


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if origin in (tuple, list):
        return isinstance(value, list | tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return isinstance(value, Mapping) and all(_fits(item, get_args(hint)[1]) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _name(hint: Any) -> str:
    origin = get_origin(hint)
    if hint is type(None):
        return "nothing"
    if origin in (Union, types.UnionType):
        return " or ".join(_name(part) for part in get_args(hint) if part is not type(None))
    if origin is Literal:
        return " or ".join(repr(choice) for choice in get_args(hint))
    if origin in (tuple, list):
        return f"an array of {_name(get_args(hint)[0])}"
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "a table"
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    return names.get(hint, str(hint))
