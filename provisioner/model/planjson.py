"""A plan as JSON text and back, exactly: what `plan --out` saves and `apply --plan` reads.

Each dataclass becomes an object of its fields; an action carries its class under "action". Bytes that aren't
UTF-8, kept as surrogates, survive since JSON escapes them.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from provisioner.errors import ConfigError
from provisioner.model.action import Action
from provisioner.model.plan import Plan

FORMAT = 1
"""Version of the saved form; another one isn't read."""

_ACTIONS: Mapping[str, type[Any]] = {cls.__name__: cls for cls in get_args(Action)}


def dumps(plan: Plan) -> str:
    """The plan as ASCII JSON text."""
    return json.dumps({"provision_plan": FORMAT, **_encode(plan)}, indent=1) + "\n"


def loads(text: str, source: str) -> Plan:
    """The plan of a text that `dumps` made. Raises ConfigError; `source` names the text in it."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or "provision_plan" not in data:
            raise ValueError("it isn't a saved plan")
        if data.pop("provision_plan") != FORMAT:
            raise ValueError("another version of provision saved it")
        plan = _decode(data, Plan)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            "the saved plan can't be read",
            why=str(error),
            remedy="make a new one with `provision plan --out`",
            file=source,
        ) from error
    assert isinstance(plan, Plan)
    return plan


def _encode(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        made = {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
        return {"action": type(value).__name__, **made} if type(value).__name__ in _ACTIONS else made
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a plan can't hold {value!r}")


def _decode(data: Any, hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return data
    if origin in (Union, types.UnionType):
        return _decode_union(data, inner)
    if origin is tuple:
        items = _expect(data, list)
        if inner[-1] is Ellipsis:
            return tuple(_decode(item, inner[0]) for item in items)
        return tuple(_decode(item, part) for item, part in zip(items, inner, strict=True))
    if origin is Literal:
        if data not in inner:
            raise ValueError(f"{data!r} is none of {inner}")
        return data
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _decode(item, inner[1]) for key, item in _expect(data, dict).items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint[_expect(data, str)]
    if is_dataclass(hint) and isinstance(hint, type):
        return _decode_object(_expect(data, dict), hint)
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return data  # as it was saved: what a change does is compared by its text
    return _expect(data, hint)


def _decode_union(data: Any, choices: tuple[Any, ...]) -> Any:
    if data is None and type(None) in choices:
        return None
    if isinstance(data, dict) and "action" in data:
        return _decode_object({key: item for key, item in data.items() if key != "action"}, _ACTIONS[data["action"]])
    rest = [choice for choice in choices if choice is not type(None)]
    if len(rest) != 1:
        raise ValueError(f"{data!r} is no action")
    return _decode(data, rest[0])


def _decode_object(data: dict[str, Any], cls: type[Any]) -> Any:
    hints = get_type_hints(cls)
    unknown = data.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
    return cls(**{key: _decode(item, hints[key]) for key, item in data.items()})


def _expect(data: Any, kind: type[Any]) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{data!r} isn't {kind.__name__}")
    return data
