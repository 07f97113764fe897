"""Convert Arrow columns to Python rows as `datasets` does, and report values that reading has changed.

In: batches of a parquet file, or of a table that `datasets` has loaded. Out: rows, and for each the values that differ
from the file: `datasets` stores mixed columns as JSON text (its feature `Json`), so that the text 007 is read back as
the number 7. Called by `learner.data.file_formats`, in the process that reads data. No value is an error here: text
that is no JSON stays text.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

# Converts a value of `to_pylist`; reports changes through `Changes`. None: the value stays as it is.
Reader = Callable[[Any, "Changes", str], Any]

_HUGGINGFACE: Final = b"huggingface"  # the schema's key for the features of `datasets`
JSON: Final = "Json"  # the feature, by its `_type`
_LISTS: Final = frozenset({"List", "LargeList", "Sequence"})
_ZEROS: Final = re.compile(r"-?\d+\.\d+0")  # 1.50: programs write 1.5
_SHOWN_CHARS: Final = 60


class Changes:
    """The changed values of one row, in words."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def add(self, path: str, was: object, now: object, why: str) -> None:
        """Record that the value at `path` was changed."""
        self.said.append(f"column {path}: {_short(was)} is read as {_short(now)}: {why}")


class BatchReader:
    """Convert batches of one schema to rows."""

    def __init__(self, schema: pa.Schema) -> None:
        features = features_of(schema)
        self._readers = {
            field.name: reader
            for field in schema
            if (reader := reader_of(field.type, features.get(field.name))) is not None
        }

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
        """Yield each row with the changes that reading has made."""
        for row in batch.to_pylist():
            changes = Changes()
            for name, reader in self._readers.items():
                if name in row:
                    row[name] = reader(row[name], changes, name)
            yield row, tuple(changes.said)


def features_of(schema: pa.Schema) -> Mapping[str, Any]:
    """Return the features that `datasets` wrote into a schema, by column; {} for none."""
    try:
        features = json.loads((schema.metadata or {})[_HUGGINGFACE])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def reader_of(kind: pa.DataType, feature: Any = None) -> Reader | None:
    """Return the converter for a type; None where the value of `to_pylist` is right.

    Args:
        kind: the column's type.
        feature: of `datasets`; it marks JSON text where the file's type is plain text.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return reader_of(kind.value_type, feature)
    if isinstance(kind, pa.JsonType) or (_is_text(kind) and _type_of(feature) == JSON):
        return read_json
    if types.is_map(kind):
        return _map_reader(reader_of(kind.key_type), reader_of(kind.item_type))
    if types.is_struct(kind):
        inner = feature if isinstance(feature, dict) and "_type" not in feature else {}
        return _struct_reader({field.name: reader_of(field.type, inner.get(field.name)) for field in kind})
    if _is_list(kind):
        return _list_reader(
            reader_of(kind.value_type, feature.get("feature") if _type_of(feature) in _LISTS else None)
        )
    widths: dict[pa.DataType, type[np.floating[Any]]] = {pa.float16(): np.float16, pa.float32(): np.float32}
    return _float_reader(widths[kind]) if kind in widths else None


def _type_of(feature: Any) -> object:
    return feature.get("_type") if isinstance(feature, dict) else None


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    checks = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    return any(check(kind) for check in checks)


def _struct_reader(of_fields: Mapping[str, Reader | None]) -> Reader | None:
    parts = {name: reader for name, reader in of_fields.items() if reader is not None}

    def read(value: Any, changes: Changes, path: str) -> Any:
        if value is None:
            return None
        return {
            name: parts[name](item, changes, f"{path}.{name}") if name in parts else item
            for name, item in value.items()
        }

    return read if parts else None


def _list_reader(of_item: Reader | None) -> Reader | None:
    if of_item is None:
        return None

    def read(value: Any, changes: Changes, path: str) -> Any:
        if value is None:
            return None
        return [of_item(item, changes, f"{path}.{place}") for place, item in enumerate(value)]

    return read


def _map_reader(of_key: Reader | None, of_item: Reader | None) -> Reader:
    """Return the converter for a map, whose keys may be of any type and may repeat."""

    def read(value: Any, changes: Changes, path: str) -> Any:
        if value is None:
            return None
        found: dict[str, Any] = {}
        for key, item in value:
            name = _key_text(of_key(key, changes, f"{path} (a key)") if of_key else key)
            inner = of_item(item, changes, f"{path}.{name}") if of_item else item
            if name in found:
                changes.add(f"{path}.{name}", found[name], inner, "the map has this key more than once")
            found[name] = inner
        return found

    return read


def _key_text(key: Any) -> str:
    """Write a map's key as JSON would."""
    if isinstance(key, bool):
        return json.dumps(key)
    return key.isoformat() if isinstance(key, dt.date | dt.time) else str(key)


def _float_reader(width: type[np.floating[Any]]) -> Reader:
    """Return the converter for floats below 64 bits: 0.1 in 32 bits is 0.10000000149011612 in 64."""

    def read(value: Any, changes: Changes, path: str) -> Any:
        if value is not None and str(width(value)) != str(np.float64(value)):
            changes.add(path, str(width(value)), float(value), f"the file has {np.dtype(width).name}")
        return value

    return read


def read_json(value: Any, changes: Changes, path: str) -> Any:
    """Parse JSON text exactly; return the value of `datasets` where it is not JSON.

    Numbers that `datasets` accepts and JSON does not (007), numbers that lose digits (1.50, 1e400), repeated keys, and
    text that is no JSON are reported as changes.
    """
    if not isinstance(value, str):
        return value
    try:
        found = _decoder(changes, path).decode(value)
    except (ValueError, RecursionError):
        return _as_datasets(value, changes, path)
    if isinstance(found, int | float) and _ZEROS.fullmatch(value.strip()):
        changes.add(path, value, found, "`datasets` keeps text and numbers of a mixed column as JSON")
    return found


def _decoder(changes: Changes, path: str) -> json.JSONDecoder:
    def number(text: str) -> float:
        found = float(text)
        try:
            is_exact = Decimal(repr(found)) == Decimal(text)
        except InvalidOperation:
            is_exact = False
        if not is_exact:
            changes.add(path, text, found, "a number has no more digits")
        return found

    def pairs(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in items:
            if key in found:
                changes.add(f"{path}.{key}", found[key], item, "the object has this key more than once")
            found[key] = item
        return found

    return json.JSONDecoder(
        parse_float=number, object_pairs_hook=pairs, strict=False
    )  # pairs: a list of tuples


def _as_datasets(text: str, changes: Changes, path: str) -> Any:
    """Return what the reader of `datasets` makes of text that is no JSON; the text itself where that fails."""
    from pandas.io.json import ujson_loads  # type: ignore[import-untyped]

    try:
        found = ujson_loads(text)
    except (ValueError, RecursionError):
        changes.add(path, text, text, "it is no JSON, which the column should have; the text stays")
        return text
    changes.add(path, text, found, "`datasets` keeps text and numbers of a mixed column as JSON")
    return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
