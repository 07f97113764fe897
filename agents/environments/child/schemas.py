"""Derive a function's schema from its type hints and docstring, and check arguments against it.

In: a function. Out: its schema for OpenAI's API and chat templates. In: the policy's arguments, a JSON text. Out:
keyword arguments, or `UnfitArguments`, whose message tells the policy what is wrong. A function without a possible
schema raises TypeError, which names it.
"""

from __future__ import annotations

import enum
import inspect
import json
import types
import typing
from typing import Any, Callable, Dict, List, NamedTuple, Tuple, Union

from agents.environments.child.docstrings import read

BASIC = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
WORDS = {**BASIC, list: "array", dict: "object"}
UNIONS = (Union, getattr(types, "UnionType", Union))  # from Python 3.10 on `int | str` has the second type


class UnfitArguments(Exception):
    """Arguments that a tool does not accept; the message is for the policy."""


class ServerGone(ConnectionError):
    """A server of tools is unreachable or gone; the policy did not cause it."""


class Signature(NamedTuple):
    """A function that the policy may call."""

    name: str
    function: Callable[..., Any]
    schema: Dict[str, Any]
    hints: Dict[str, Any]  # of its parameters
    required: Tuple[str, ...]

    def fitted(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """Return keyword arguments. Raises UnfitArguments."""
        if strange := [name for name in given if name not in self.hints]:
            takes = ", ".join(self.hints) or "none"
            raise UnfitArguments(f"there is no parameter {', '.join(map(repr, strange))}; it takes {takes}")
        if lacking := [name for name in self.required if name not in given]:
            raise UnfitArguments(f"{', '.join(map(repr, lacking))} is missing")
        return {name: fitted(value, self.hints[name], name) for name, value in given.items()}


def arguments_of(given: Any) -> Dict[str, Any]:
    """Parse the arguments of the policy's call. Raises UnfitArguments where they are no object."""
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UnfitArguments(f"the arguments are no JSON: {error}") from None
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise UnfitArguments(f"the arguments are an object, got {_word(given)}")
    return given


def signature_of(function: Any, path: str) -> Signature:
    """Read a function. Raises TypeError."""
    if not callable(function) or not (docstring := inspect.getdoc(function)):
        raise TypeError(f"{path}: a tool is a function with a docstring, which tells the policy what it does")
    description, said = read(docstring)
    hints = _hints(function)
    properties: Dict[str, Any] = {}
    required: List[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{path}: a tool's parameters have names, and {parameter} has none")
        if name not in hints:
            raise TypeError(f"{path}: the parameter {name} has no type hint")
        properties[name] = schema_of(hints[name], f"{path}: the parameter {name}")
        if text := said.get(name):
            properties[name]["description"] = text
        if parameter.default is parameter.empty:
            required.append(name)
    parameters: Dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    name = function.__name__
    schema = {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
    return Signature(name, function, schema, {one: hints[one] for one in properties}, tuple(required))


def schema_of(hint: Any, where: str) -> Dict[str, Any]:  # noqa: PLR0911 - a case each
    """Return a type's schema. Raises TypeError with the place of an unsupported type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choices([one.value for one in hint])
    if hint in WORDS:
        return {"type": WORDS[hint]}
    if origin is typing.Literal:
        return _choices(list(inner))
    if origin in UNIONS:
        return _union([schema_of(one, where) for one in inner if one is not type(None)], inner)
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0], where)}
    if origin is dict and inner[0] is str:
        return {"type": "object", "additionalProperties": schema_of(inner[1], where)}
    known = "str, int, float, bool, list, dict with keys of str, Literal, an Enum, and unions of them"
    raise TypeError(
        f"{where} is of {getattr(hint, '__name__', hint)}, which has no schema; these have one: {known}"
    )


def fitted(value: Any, hint: Any, where: str) -> Any:  # noqa: PLR0911 - a case each
    """Return a value converted to its type. Raises UnfitArguments with the place of the value."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in UNIONS:
        return _one_of(value, inner, where)
    if origin is typing.Literal or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return _chosen(value, hint, where)
    kind = origin or hint
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not kind:
        raise UnfitArguments(f"{where} is of type {WORDS[kind]}, got {_word(value)}")
    if origin is list:
        return [fitted(one, inner[0], f"{where}[{place}]") for place, one in enumerate(value)]
    if origin is dict:
        return {name: fitted(one, inner[1], f"{where}.{name}") for name, one in value.items()}
    return value


def _one_of(value: Any, hints: Tuple[Any, ...], where: str) -> Any:
    """Return a value converted to the first type that it has exactly, else to the first that accepts it."""
    reasons: List[str] = []
    own: Any = type(value)
    for hint in sorted(hints, key=lambda one: (typing.get_origin(one) or one) is not own):
        try:
            return fitted(value, hint, where)
        except UnfitArguments as error:
            reasons.append(str(error))
    raise UnfitArguments("; or ".join(reasons))


def _chosen(value: Any, hint: Any, where: str) -> Any:
    members = typing.get_args(hint) or list(hint)
    for member in members:
        plain = member.value if isinstance(member, enum.Enum) else member
        if plain == value and type(plain) is type(value):
            return member
    choices = [one.value if isinstance(one, enum.Enum) else one for one in members]
    raise UnfitArguments(f"{where} is one of {json.dumps(choices, default=str)}, got {_word(value)}")


def _choices(choices: List[Any]) -> Dict[str, Any]:
    words = list(dict.fromkeys(BASIC.get(type(one), "string") for one in choices))
    return {"type": words[0] if len(words) == 1 else words, "enum": choices}


def _union(schemas: List[Dict[str, Any]], inner: Tuple[Any, ...]) -> Dict[str, Any]:
    if len(schemas) == 1:
        (found,) = schemas
    elif all(schema.keys() == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        words = sorted({schema["type"] for schema in schemas})
        found = {"type": words[0] if len(words) == 1 else words}
    else:
        found = {"anyOf": schemas}
    return {**found, "nullable": True} if type(None) in inner else found


def _hints(function: Any) -> Dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        raise TypeError(f"{function.__name__}: a type hint can't be read: {error}") from None


def _word(value: Any) -> str:
    """Name a JSON value for the policy."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{WORDS.get(type(value), type(value).__name__)} {text[:80]}{'…' if len(text) > 80 else ''}"
