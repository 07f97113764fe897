"""The base of every section of a run's configuration, and how a union of sections gets a default type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

GpuNumber = Annotated[int, Field(ge=0)]  # counted from 0 among the GPUs that this process sees


class Section(BaseModel):
    """A group of keys. Frozen after loading; a key that the section does not know is an error with the nearest key."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


def default_type(name: str) -> BeforeValidator:
    """Let a union's section leave out its `type`: the section then is of type `name`.

    Configurations that are older than the union stay valid, and so do stored ones.
    """

    def fill(value: Any) -> Any:
        return {"type": name, **value} if isinstance(value, Mapping) and "type" not in value else value

    return BeforeValidator(fill)
