"""Base class of all sections of a configuration, the sections of a field, and the default type of a union of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

GpuNumber = Annotated[int, Field(ge=0)]  # counted from 0 among the GPUs that this process sees


class Section(BaseModel):
    """A group of keys. Frozen after loading; an unknown key is an error that names the nearest key."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        protected_namespaces=(),
        allow_inf_nan=False,
        defer_build=True,  # most sections are validated as parts of a run alone
    )


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a field of this type may hold, those of a list or a mapping too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return list(dict.fromkeys(inner for part in get_args(annotation) for inner in sections_of(part)))


def default_type(name: str) -> BeforeValidator:
    """Allow a section of a union to omit its `type`; it then has the type `name`.

    Configurations from before the union existed stay valid, stored ones too.
    """

    def fill(value: Any) -> Any:
        return {"type": name, **value} if isinstance(value, Mapping) and "type" not in value else value

    return BeforeValidator(fill)
