r"""Tables of short texts, as many as a line has.

`¦` or a line's end stands between two texts, `⏎` is a line's end in one, and `\u2212` is the character of that number.
A pair is `reference <== answer ¦ another answer`, and ` ;; ` or a line's end stands between two; behind ` ✗ ` are the
wrong ones, where a table has both. `# name` opens a kind.
"""

from __future__ import annotations

import re

Pair = tuple[str, str]
"""A reference and an answer."""


def listed(table: str) -> tuple[str, ...]:
    """Return the texts of a table; spaces beside a bar belong to them."""
    return tuple(_plain(text) for line in table.strip("\n").split("\n") for text in line.split("¦"))


def paired(table: str) -> tuple[Pair, ...]:
    """Return the pairs of a table."""
    found: list[Pair] = []
    for record in table.strip("\n").replace("\n", " ;; ").split(" ;; "):
        reference, answers = record.split(" <== ")
        found += [(_plain(reference), _plain(answer)) for answer in answers.split(" ¦ ")]
    return tuple(found)


def listed_by_kind(table: str) -> dict[str, tuple[str, ...]]:
    """Return the texts of each kind."""
    return {kind: listed(body) for kind, body in _kinds(table)}


def paired_by_kind(table: str) -> dict[str, tuple[Pair, ...]]:
    """Return the pairs of each kind."""
    return {kind: paired(body) for kind, body in _kinds(table)}


def paired_right_and_wrong(table: str) -> dict[str, tuple[tuple[Pair, ...], tuple[Pair, ...]]]:
    """Return the pairs of each kind, those whose answer is right and those whose answer is wrong."""
    found = {}
    for kind, body in _kinds(table):
        right: list[Pair] = []
        wrong: list[Pair] = []
        for record in body.strip("\n").replace("\n", " ;; ").split(" ;; "):
            reference, answers = record.split(" <== ")
            for pairs, texts in zip((right, wrong), f"{answers} ".split("✗ "), strict=False):
                pairs += [(_plain(reference), _plain(text)) for text in texts.strip().split(" ¦ ") if text]
        found[kind] = (tuple(right), tuple(wrong))
    return found


def right_and_wrong(table: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return each kind, its right texts, and its wrong ones, whose lines begin with `✗`."""
    found = []
    for kind, body in _kinds(table):
        lines = body.rstrip("\n").split("\n")
        wrong = [line.removeprefix("✗") for line in lines if line.startswith("✗")]
        right = [line for line in lines if not line.startswith("✗")]
        found.append((kind, listed("\n".join(right)), listed("\n".join(wrong))))
    return found


def _kinds(table: str) -> list[tuple[str, str]]:
    names_and_bodies = re.split(r"^# (.+)\n", table, flags=re.MULTILINE)[1:]
    return list(zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True))


def _plain(spelled: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), spelled.replace("⏎", "\n"))
