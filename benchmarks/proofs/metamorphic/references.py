"""References to rewrite: read from files, or made from the templates.

In: JSON or JSONL files with one reference a row, under a key that is found or named. Out: texts with their source.
A row without one is passed over; a file without any is an error that names the keys it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.proofs.metamorphic.structure import shape_of
from scorers.math.text import tidy

KEYS: Final = ("reference", "final_answer", "answer", "ground_truth", "gold", "target", "solution")
_SAID: Final = "The answer is:"  # how MATH-500's rows end


class Reference(NamedTuple):
    """One reference, and where it is from."""

    text: str
    source: str
    kind: str = ""  # of its template; "" for one that was read
    right: tuple[str, ...] = ()  # answers that its template gives
    wrong: tuple[str, ...] = ()


class NoReference(Exception):
    """A file has no row with a reference; the message names file and keys."""


def read(path: Path, key: str | None = None) -> list[Reference]:
    """Return the references of a file, each text once. Raises NoReference."""
    rows = [*_rows(path)]
    texts = dict.fromkeys(text for row in rows if (text := _reference(row, key)))
    if not texts:
        keys = ", ".join(sorted({name for row in rows for name in row})) or "no rows"
        raise NoReference(f"{path}: no reference under {key or ' or '.join(KEYS)}; it has {keys}")
    return [Reference(text, path.stem) for text in dict.fromkeys(map(tidy, texts))]


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        yield from (row for row in json.loads(text) if isinstance(row, Mapping))
        return
    for line in filter(str.strip, text.splitlines()):
        if isinstance(row := json.loads(line), Mapping):
            yield row


def _reference(row: Mapping[str, Any], key: str | None) -> str | None:
    for name in (key,) if key else KEYS:
        value = row.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value.strip():
            return _answer(value, name)
    return None


def _answer(text: str, key: str) -> str | None:
    """Return the answer in a solution: what its end says, or its last box; a short text is one itself."""
    if _SAID in text:
        return text.rpartition(_SAID)[2].strip()
    start = text.rfind("\\boxed{")
    if start < 0:
        return None if key == "solution" else text.strip()
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0 and text[place] == "}":
            return text[start + len("\\boxed{") : place].strip()
    return None


def only(references: Iterable[Reference], kinds: Iterable[str], limit: int | None) -> list[Reference]:
    """Return those of the kinds or shapes, evenly thinned to the limit."""
    wanted = {*kinds}
    found = [one for one in references if not wanted or {one.kind, one.source, shape_of(one.text)} & wanted]
    if limit is None or len(found) <= limit:
        return found
    step = len(found) / limit
    return [found[int(place * step)] for place in range(limit)]
