"""How LiveBench's tasks with tables decide: `tablereformat` and `tablejoin`.

In: the part of a completion that answers, and what the row has. Out: a value in [0, 1] and the reason, or `Unanswered`;
`BrokenReference` where the row's own table or mapping can't be read. Nothing that a model wrote is evaluated, and
nothing is opened. Facts from LiveBench's own graders (github.com/LiveBench/LiveBench, commit b0fb577).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from scorers.livebench.answer import whole
from scorers.livebench.rules import BrokenReference, LiveBenchQuestion
from scorers.livebench.tables import MAX_TABLE_CHARS, READERS, NoTable, difference, read_table
from scorers.text.extract import Unanswered, last_answer, last_block, last_box
from scorers.text.literals import NotALiteral, read_literal

_SENTENCE: Final = re.compile(
    r"Please convert the Input Table from \w+ format to (\w+) format"
)  # to spring 2025
_LINE: Final = re.compile(r"Target Format:[ \t]*(\w+)")  # since then
# What stands behind a fence that holds a table of the format, beside the format's own name.
_TAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "csv": ("text", "plaintext"),
    "tsv": ("csv", "text", "plaintext"),
    "markdown": ("md", "text"),
    "jsonl": ("json",),
}
_MAPPING_TAGS: Final = ("python", "json")
_NAMED: Final = re.compile(r"\A\w+\s*=\s*(?=\{)")


def format_asked(prompt: str) -> str | None:
    """Return the table's format that the prompt asks for, in lower case; None where it names no known one."""
    sentence = _SENTENCE.search(prompt)
    names = [sentence[1]] if sentence is not None else _LINE.findall(prompt)
    return names[-1].lower() if names and names[-1].lower() in READERS else None


def table_reformat(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Return 1.0 where the response is the reference's table, in the format that the prompt asks for.

    Raises:
        Unanswered: it is no such table.
        BrokenReference: nor is the reference.
    """
    name = format_asked(question.prompt or "")
    if name is None:
        raise BrokenReference("the prompt names no known format of the table that it asks for")
    try:
        reference = read_table(question.reference, name)
    except NoTable as error:
        raise BrokenReference(f"the reference is no table in {name}: {error}") from None
    try:
        answer = read_table(whole(response, (name, *_TAGS.get(name, ()))), name)
    except NoTable as error:
        raise Unanswered(f"no answer: no table in {name}: {error}") from None
    because = difference(answer, reference)
    return (0.0, because) if because else (1.0, f"the table of {len(reference.rows)} rows is right")


def table_join(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """F1 of the pairs of columns that the answer maps to one another; a column that maps to nothing is no pair.

    Raises:
        Unanswered: the response is no mapping of names, or an empty one.
        BrokenReference: nor is the reference.
    """
    reference = _mapping(question.reference)
    if not reference:
        raise BrokenReference("the reference is no mapping of columns")
    answer = _mapping(_join(response))
    if not answer:
        raise Unanswered('no answer: no mapping {"column of A": "column of B"} after the thinking')
    right = sum(reference.get(column) == other for column, other in answer.items())
    return (
        2 * right / (len(answer) + len(reference)),
        f"{right} of {len(answer)} pairs are right, {len(reference)} expected",
    )


def _join(response: str) -> str:
    """Return the last solution, block or box, in this order of precedence; else all of the response."""
    box = None if last_answer(response, "solution") is not None else last_box(response)
    if box is not None and last_block(response, _MAPPING_TAGS) is None:
        return box.replace("\\", "")
    return whole(response, _MAPPING_TAGS)


def _mapping(text: str) -> dict[str, str]:
    """Return the pairs of a flat object as Python or JSON writes it, which must be all of the text; else {}.

    A name may be given to it, `join_map = {...}`.
    """
    text = _NAMED.sub("", text.strip())
    try:
        found = read_literal(text) if len(text) <= MAX_TABLE_CHARS else None
    except NotALiteral:
        return {}
    if not isinstance(found, dict) or not all(
        other is None or isinstance(other, str) for other in found.values()
    ):
        return {}
    return {column: other for column, other in found.items() if other is not None}
