"""The keys of the configuration, read from its sections: name, type, default and docstring.

In: `config.run.Run`. Out: a `SectionKeys` for each section, in the order of the file; a section that stands in several
places is listed in full at the first. The docstring of a key is the string below it in the source of its class. Pure.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from config.section import Section, sections_of

NAMES = {str: "str", int: "int", float: "float", bool: "bool", Path: "path", SecretStr: "secret", Any: "any"}
SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
NAME = "NAME"  # stands for a name that the run chooses, such as a task's


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section."""

    name: str
    kind: str  # type with its bounds, such as `int ≥ 1`
    default: str  # as YAML; "" where the key is required or opens a section
    is_required: bool
    says: str


@dataclass(frozen=True, slots=True)
class SectionKeys:
    """The keys that one section has at one place.

    Attributes:
        place: dotted key of the section; "" for the top.
        kind: its `type`, where several sections may stand there; "" where it is the only one, `*` for the keys that
            all of them have.
        is_default: whether the section of this `type` stands there unless another is chosen.
        says: docstring of the section.
        keys: its keys, without those that `same` names.
        same: titles of other parts, each with the names of the keys that are there in full; no names: all of them.
        kinds: every `type` that may stand there, where `kind` is `*`.
    """

    place: str
    kind: str
    is_default: bool
    says: str
    keys: tuple[Key, ...]
    same: tuple[tuple[str, tuple[str, ...]], ...]
    kinds: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Heading of the part, such as `generators.engine: vllm`."""
        return title_of(self.place, self.kind)


def title_of(place: str, kind: str) -> str:
    """Return the heading of the part of a section at a place."""
    return f"{place}: {kind}" if kind not in {"", "*"} else place


def parts_of(top: type[BaseModel]) -> list[SectionKeys]:
    """Return the parts of a configuration whose top section is `top`."""
    return list(_Walk().below("", top, None))


class _Walk:
    """Goes through the sections, and knows which keys have been listed where."""

    def __init__(self) -> None:
        self._listed: dict[tuple[type, str], tuple[str, str]] = {}  # key -> title of its part, default there
        self._places: dict[tuple[type, ...], str] = {}  # sections -> the place where they were listed first

    def below(self, place: str, annotation: Any, default: Any) -> Iterator[SectionKeys]:
        """Yield the parts of the sections that may stand at `place`, and then those below them."""
        members = _without_bases(sections_of(annotation))
        first = self._places.setdefault(tuple(members), place)
        if first != place:
            yield SectionKeys(place, "", False, "", (), ((first, ()),))
            return
        if len(members) == 1:
            yield self._part(place, "", members[0], list(members[0].model_fields), is_default=False)
        else:
            shared = _shared(members)
            whose = _owner(members[0], shared[0]) if shared else members[0]
            head = self._part(place, "*", whose, shared, is_default=False)
            yield replace(head, says=head.says if shared else "", kinds=tuple(map(_type_of, members)))
            for member in members:
                own = [name for name in member.model_fields if name not in shared]
                is_default = default is not None and type(default) is member
                yield self._part(place, _type_of(member), member, own, is_default=is_default)
        done: set[str] = set()
        for member in members:
            for name, field in member.model_fields.items():
                if name in done or not sections_of(field.annotation):
                    continue
                done.add(name)
                named = f".{NAME}" if get_origin(field.annotation) is dict else ""
                inner = f"{place}.{name}{named}".lstrip(".")
                yield from self.below(inner, field.annotation, _default(field))

    def _part(
        self, place: str, kind: str, section: type[BaseModel], names: Sequence[str], *, is_default: bool
    ) -> SectionKeys:
        title = title_of(place, kind)
        keys: list[Key] = []
        same: dict[str, list[str]] = {}
        for name in names:
            if name == "type":
                continue
            key = _key(section, name)
            owner = _owner(section, name)
            there, default = self._listed.setdefault((owner, name), (title, key.default))
            if there == title or default != key.default:
                keys.append(key)
            else:
                same.setdefault(there, []).append(name)
        said = inspect.cleandoc(section.__doc__ or "")
        return SectionKeys(
            place,
            kind,
            is_default,
            said,
            tuple(keys),
            tuple((one, tuple(some)) for one, some in same.items()),
        )


def _without_bases(members: Sequence[type[BaseModel]]) -> list[type[BaseModel]]:
    """Leave out a section where one that has more keys may stand in the same place."""
    return [
        one for one in members if not any(one is not other and issubclass(other, one) for other in members)
    ]


def _shared(members: Sequence[type[BaseModel]]) -> list[str]:
    """Return the keys that all members have from the same class."""
    first, *others = members
    return [
        name
        for name in first.model_fields
        if name != "type"
        and all(name in other.model_fields and _owner(first, name) is _owner(other, name) for other in others)
        and len({_default_text(member.model_fields[name]) for member in members}) == 1
    ]


def _type_of(section: type[BaseModel]) -> str:
    return str(section.model_fields["type"].default)


def _key(section: type[BaseModel], name: str) -> Key:
    field = section.model_fields[name]
    says = docstrings(_owner(section, name)).get(name, "")
    required = field.is_required()
    return Key(name, words_of(field.annotation, field.metadata), _default_text(field), required, says)


def _owner(section: type[BaseModel], name: str) -> type[BaseModel]:
    """Return the class that says what a key means: the nearest one with a docstring for it, else where it begins."""
    having = [one for one in section.__mro__ if name in vars(one).get("__annotations__", {})]
    return next((one for one in having if name in docstrings(one)), having[-1])


@cache
def docstrings(section: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the keys that a class itself declares."""
    if not issubclass(section, Section):
        return {}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    body = getattr(tree, "body", [])
    found = {}
    for one, after in pairwise(body):
        if (
            isinstance(one, ast.AnnAssign)
            and isinstance(one.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[one.target.id] = " ".join(str(after.value.value).split())
    return found


def words_of(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Say a type in words, with its bounds: `int ≥ 1`, `auto | never`, `list of str`."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        more = [part for one in annotation.__metadata__ for part in getattr(one, "metadata", [one])]
        return words_of(inner[0], more)
    if origin is Literal:
        said = " | ".join(map(_yaml, inner))
    elif origin in {Union, UnionType}:
        said = " | ".join(dict.fromkeys(words_of(part) for part in inner if part is not NoneType))
    elif origin in {tuple, list}:
        each = [words_of(part) for part in inner if part is not Ellipsis]
        one = f"({each[0]})" if "|" in each[0] else each[0]
        said = f"list of {one}" if Ellipsis in inner else f"[{', '.join(each)}]"
    elif origin is dict:
        said = f"mapping of {words_of(inner[0])} to {words_of(inner[1])}"
    else:
        said = "section" if sections_of(annotation) else NAMES.get(annotation, str(annotation))
    return f"{said}{_bounds(metadata)}"


def _bounds(metadata: Sequence[Any]) -> str:
    said = [
        f" {sign} {_yaml(getattr(one, name))}"
        for one in metadata
        if isinstance(one, annotated_types.Ge | annotated_types.Gt | annotated_types.Le | annotated_types.Lt)
        for name, sign in SIGNS.items()
        if hasattr(one, name)
    ]
    return ",".join(said)


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def _default_text(field: FieldInfo) -> str:
    value = _default(field)
    if field.is_required():
        return ""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        own = {name: one for name, one in value if name in value.model_fields_set - {"type"}}
        said = [f"{name}: {_shown(one)}" for name, one in own.items() if one != _default(fields[name])]
        return f"{{{', '.join(said)}}}" if said else ""
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"
    return _shown(value)


def _shown(value: Any) -> str:
    return _type_of(type(value)) if isinstance(value, BaseModel) else _yaml(value)


def _yaml(value: Any) -> str:
    return str(value) if isinstance(value, str | Path) else yaml.safe_dump(value).split("\n")[0]
