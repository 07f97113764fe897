"""Prepare logic tasks: the grids of ARC-AGI and BARC, and three kinds of generated puzzles.

In: tasks of ARC-AGI from its repositories, records of BARC, and puzzles of `tools.prepare.puzzles`. Out: drafts whose
answer belongs between `<answer>` tags. Pure, except for reading ARC's files; called by `tools.prepare.stages`. The
names of the data sources are Reasoning360's, which has ARC and BARC under simulation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.prepare.preparation import (
    LIST,
    BadRecord,
    Draft,
    Draw,
    Files,
    Filter,
    Hub,
    Made,
    Preparation,
    Record,
    Split,
    Types,
    tokens_below,
)
from tools.prepare.puzzles import graph, ordering, zebra

_SHOWN_PAIRS: Final = 6  # grid pairs in a prompt
_TRAIN: Final = (0.0, 0.8)  # share of records
_TEST: Final = (0.8, 1.0)
_TEXT_OR_NUMBER: Final = (str, int, float)

_GRIDS: Final = (
    "Each pair below is a grid before and after one and the same change. Work out the change, and apply it to the last "
    "grid. A grid is a list of rows of whole numbers."
)
_GRID_ANSWER: Final = (
    "Write the changed grid, as a list of rows and nothing else, between <answer> and </answer>."
)


def grid_prompt(pairs: Sequence[tuple[list[list[int]], list[list[int]]]], asked: list[list[int]]) -> str:
    """Return the prompt of a task: its pairs of grids, and the grid to transform."""
    shown = [
        f"Pair {number}\nBefore: {before}\nAfter: {after}"
        for number, (before, after) in enumerate(pairs, start=1)
    ]
    return "\n\n".join([_GRIDS, *shown, f"Last grid\nBefore: {asked}", _GRID_ANSWER])


def grid_of(value: Any, column: str) -> list[list[int]]:
    """Return a grid of integers, which BARC writes as floats. Raises BadRecord."""
    try:
        rows = [[int(float(cell)) for cell in row] for row in value]
    except (TypeError, ValueError):
        rows = []
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise BadRecord(f", column {column}: a grid of whole numbers is wanted, got {value!r:.80}")
    return rows


def arc(record: Record, _: random.Random) -> Draft:
    """Return the draft of a task of ARC-AGI: it shows up to six pairs, and asks for the first test pair."""
    pairs = [_pair(one, "train") for one in record["train"][:_SHOWN_PAIRS]]
    asked, answer = _pair(record["test"][0], "test")
    return Draft(prompt=grid_prompt(pairs, asked), ground_truth=answer)


def _pair(one: Any, column: str) -> tuple[list[list[int]], list[list[int]]]:
    if not isinstance(one, dict) or not {"input", "output"} <= one.keys():
        raise BadRecord(f", column {column}: pairs of input and output are wanted, got {one!r:.80}")
    return grid_of(one["input"], column), grid_of(one["output"], column)


def barc(record: Record, _: random.Random) -> Draft:
    """Return the draft of a record of BARC: it shows up to six pairs, and asks for the next."""
    found = [
        (grid_of(one[0], "examples"), grid_of(one[1], "examples")) for one in map(_two, record["examples"])
    ]
    shown = min(len(found) - 1, _SHOWN_PAIRS)
    asked, answer = found[shown]
    return Draft(prompt=grid_prompt(found[:shown], asked), ground_truth=answer)


def _two(one: Any) -> Any:
    if not isinstance(one, list) or len(one) != 2:
        raise BadRecord(f", column examples: pairs of two grids are wanted, got {one!r:.80}")
    return one


def _arc_folder(root: Path, split: str) -> Path:
    return next((path for path in (root / "data" / split, root / split) if path.is_dir()), root / split)


def _arc_files(root: Path, split: str) -> list[Path]:
    return sorted(_arc_folder(root, split).glob("*.json"))


def _arc_records(root: Path, split: str) -> Iterator[tuple[str, Record]]:
    for file in _arc_files(root, split):
        try:
            task = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"{file} is no JSON: {error}") from error
        if not isinstance(task, dict):
            raise BadRecord(f"{file} is no task: an object with train and test is wanted")
        yield str(file), task


ZEBRA_FORM: Final = (
    "Write the solved table as an object with header and rows, one row a position, between <answer> and </answer>. "
    'For another puzzle that is: <answer>{"header": ["Position", "Pet", "Tool"], "rows": [["1", "hamster", "saw"], '
    '["2", "parrot", "drill"]]}</answer>'
)


def zebra_row(record: Record, _: random.Random) -> Draft:
    """Return the draft of a zebra puzzle."""
    size = record["size"]
    values = "\n".join(f"{kind}: {', '.join(own)}" for kind, own in record["values"].items())
    clues = "\n".join(f"{number}. {clue}" for number, clue in enumerate(record["clues"], start=1))
    said = (
        f"There are {size['positions']} positions in a line, numbered from 1 at the left. Each has one value of each "
        f"kind, and no two have the same one. The kinds and their values:\n{values}"
    )
    return Draft(
        prompt=f"{said}\n\nFind out which position has which values. The clues:\n{clues}\n\n{ZEBRA_FORM}",
        ground_truth=record["table"],
        extra={
            "grid_size": f"{size['positions']}x{size['kinds']}",
            "level": size["level"],
            "raw_instruction": said,
            "raw_input": record["clues"],
        },
    )


def ordering_row(record: Record, _: random.Random) -> Draft:
    """Return the draft of a puzzle of order."""
    hints = "\n".join(f"{number}. {hint}" for number, hint in enumerate(record["hints"], start=1))
    said = f"These {record['kind']} stand in a line: {', '.join(record['names'])}. Find their order from left to right."
    return Draft(
        prompt=f"{said}\n{hints}\n\nWrite the names in their order, as a list, between <answer> and </answer>, as in "
        "<answer>['spoon', 'fork']</answer>.",
        ground_truth=record["order"],
        extra={"num_objects": len(record["order"]), "raw_instruction": said, "raw_input": hints},
    )


def graph_row(record: Record, draw: random.Random) -> Draft:
    """Return the draft of a puzzle of implications, each in one of four wordings."""
    who = draw.choice(_SOMEBODY)
    wordings = (
        "If {who} is {a}, then {who} is {b}.",
        "{who} is {b} if {who} is {a}.",
        "Whenever {who} is {a}, {who} is {b}.",
        "That {who} is {a} implies that {who} is {b}.",
    )
    facts = [draw.choice(wordings).format(who=who, a=a, b=b) for a, b in record["implications"]]
    return Draft(
        prompt=f"{' '.join(facts)}\n\n{who} is {record['start']}. To show by these statements that {who} is "
        f"{record['goal']}, what is shown first? Write that one word between <answer> and </answer>.",
        ground_truth=record["answer"],
        extra={"lookahead": record["look_ahead"]},
    )


_SOMEBODY: Final = ("Ada", "Bo", "Emeka", "Greta", "Hana", "Ivo", "Jun", "Luca")


def _arc_set(number: int, address: str) -> Preparation:
    return Preparation(
        name=f"arcagi{number}",
        domain="logic",
        about=f"grids of ARC-AGI-{number}: one change, shown by examples",
        source=Files(address=address, files=_arc_files, records=_arc_records),
        columns={"train": LIST, "test": LIST},
        row=arc,
        data_source=f"simulation__arcagi{number}",
        ability="reasoning",
        splits={"train": Split(source="training"), "test": Split(source="evaluation")},
        filters=(Filter(name="has pairs", keeps=lambda record: bool(record["train"] and record["test"])),),
        max_prompt_tokens=tokens_below(4096),
        licence="Apache-2.0",
        file=f"logic__arcagi{number}",
    )


def _puzzles(
    name: str, about: str, source: Made, row: Draw, *, columns: Mapping[str, Types], size: int
) -> Preparation:
    """Return the preparation of a kind of puzzle, with `size` rows for training and a quarter of that for testing."""
    return Preparation(
        name=name,
        domain="logic",
        about=about,
        source=source,
        columns=columns,
        row=row,
        data_source=f"logic__{name}",
        ability="logical_reasoning",
        repeats=("id",),
        splits={"train": Split(share=_TRAIN, size=size), "test": Split(share=_TEST, size=size // 4)},
    )


PREPARATIONS: Final = (
    _arc_set(1, "https://github.com/fchollet/ARC-AGI"),
    _arc_set(2, "https://github.com/arcprize/ARC-AGI-2"),
    Preparation(
        name="barc",
        domain="logic",
        about="made grids in the manner of ARC-AGI",
        source=Hub(path="barc0/200k_HEAVY_gpt4o-description-gpt4omini-code_generated_problems"),
        columns={"examples": LIST},
        row=barc,
        data_source="simulation__barc",
        ability="reasoning",
        splits={"train": Split(head=10_000, share=_TRAIN), "test": Split(head=10_000, share=_TEST)},
        filters=(Filter(name="has two pairs", keeps=lambda record: len(record["examples"]) > 1),),
        max_prompt_tokens=tokens_below(4096),
        file="logic__barc",
    ),
    _puzzles(
        "zebra_puzzle_dataset",
        "who has what where; 61 sizes and levels",
        Made(by="tools.prepare.puzzles.zebra", make=zebra.make),
        zebra_row,
        columns={"values": (dict,), "clues": LIST, "table": (dict,), "size": (dict,)},
        size=5700,
    ),
    _puzzles(
        "ordering_puzzle_dataset",
        "three to seven names in a line, by hints",
        Made(by="tools.prepare.puzzles.ordering", make=ordering.make),
        ordering_row,
        columns={"kind": (str,), "names": LIST, "hints": LIST, "order": LIST},
        size=2900,
    ),
    _puzzles(
        "graph_logical_dataset",
        "chains of implications; the next step, 1 to 543 steps from the goal",
        Made(by="tools.prepare.puzzles.graph", make=graph.make),
        graph_row,
        columns={
            "implications": LIST,
            "start": (str,),
            "goal": (str,),
            "answer": (str,),
            "look_ahead": (int,),
        },
        size=2800,
    ),
)
