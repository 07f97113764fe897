"""Check plans and other structured answers step by step: each step has to be valid and possible.

In: an answer that the library gives full marks, and its row. Out: why it is wrong after all, or None. Called by
`verdicts.gym.second_look`. The library ignores steps that it can't do or read, and uses the last of two values; but a
plan with impossible steps, and an answer with two values, are wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from verdicts.gym.rows import GymRow

_SIDE: Final = 6  # of a board of rush_hour
_CAR_MOVE: Final = re.compile(r"([A-Z])\1?([+-])(\d{1,2})", re.ASCII)
_STEPS: Final = {"L": (-1, 0), "R": (1, 0), "U": (0, -1), "D": (0, 1)}
_JUG_MOVE: Final = re.compile(r"(?:fill|empty) [A-Z]|pour [A-Z]->[A-Z]")
_PLACE: Final = r"\[\s*(\d+(?:\.\d+)?)\s*,\s*(\d+(?:\.\d+)?)\s*\]"
_AGENT: Final = re.compile(f"Agent{_PLACE}", re.ASCII)
_BOX_MOVE: Final = re.compile(rf"move\((box_\w+), (?:(target_\w+)|square{_PLACE})\)", re.ASCII)


def strict_json(text: str) -> Any:
    """Return the value of a text in JSON. Raises ValueError, also for duplicate keys, and for NaN."""
    return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)


def cars(answer: str, row: GymRow) -> str | None:
    """Refuse a move of rush_hour that is blocked, or of no car: the library ignores it."""
    board = str(row.metadata["board_config"])
    places = [
        [i for i, label in enumerate(board) if label == name] for name in sorted(set(board) - {"o", "x"})
    ]
    taken = {i for i, label in enumerate(board) if label != "o"}
    for move in re.findall(r"[A-Z]+[+-]\d+", answer):
        if (found := _CAR_MOVE.fullmatch(move)) is None or not int(found[3]):
            return f"{move[:20]!r} is no move"
        number = ord(found[1]) - ord("A")  # the board is shown with its cars renamed in this order
        if number >= len(places):
            return f"there is no car {found[1]}"
        car = places[number]
        step = car[1] - car[0]
        for _ in range(int(found[3])):
            end = car[-1] + step if found[2] == "+" else car[0] - step
            is_inside = 0 <= end < len(board) and (step != 1 or end // _SIDE == car[0] // _SIDE)
            if not is_inside or end in taken:
                return f"{move!r} is blocked"
            taken -= set(car)
            car[:] = [place + (step if found[2] == "+" else -step) for place in car]
            taken |= set(car)
    return None


def pushes(answer: str, row: GymRow) -> str | None:
    """Refuse a step of sokoban into a wall, or against a box that can't be pushed: the library ignores it."""
    lines = str(row.metadata["gamestr"]).replace(" ", "").split()
    cells = {(x, y): cell for y, line in enumerate(lines) for x, cell in enumerate(line)}
    free = {place for place, cell in cells.items() if cell != "+"}
    crates = {place for place, cell in cells.items() if cell in "@$"}
    x, y = next(place for place, cell in cells.items() if cell in "*%")
    for number, step in enumerate(re.sub(r"[\s,]", "", answer), 1):
        right, down = _STEPS[step]
        x, y = x + right, y + down
        behind = (x + right, y + down)
        is_push = (x, y) in crates
        if (x, y) not in free or (is_push and (behind not in free or behind in crates)):
            return f"step {number}, {step}, is blocked"
        if is_push:
            crates ^= {(x, y), behind}
    return None


def boxes(answer: str, row: GymRow) -> str | None:
    """Refuse a plan of boxnet with a move that can't be made: the library ignores it."""
    state = {_place(*key.split("_")): list(items) for key, items in row.metadata["initial_state"].items()}
    for step in strict_json(answer):
        agents = [_AGENT.fullmatch(agent) for agent in step]
        places = [_place(*agent.groups()) for agent in agents if agent]
        if len(set(places)) != len(agents):
            return "a step is no list of agents, each with one action"
        for place, action in zip(places, step.values(), strict=True):
            if not _is_carried_out(place, action, state):
                return f"the agent at {place} can't {str(action)[:60]!r}"
    return None


def jugs(answer: str, row: GymRow) -> str | None:
    """Refuse moves with more than two words: the library ignores the others."""
    del row
    moves = strict_json(answer)
    is_list = isinstance(moves, list) and all(isinstance(move, str) for move in moves)
    return None if is_list and all(map(_JUG_MOVE.fullmatch, moves)) else "it is no list of moves"


def colouring(answer: str, row: GymRow) -> str | None:
    """Refuse a vertex with two colours, and one that the graph does not have."""
    vertices = {str(vertex) for vertex in row.metadata["puzzle"]["vertices"]}
    return None if strict_json(answer).keys() == vertices else "it colours other vertices than the graph's"


def partitions(answer: str, row: GymRow) -> str | None:
    """Refuse a partition that is no list, and one that appears twice: the library compares sets."""
    found = strict_json(answer)
    is_lists = isinstance(found, list) and all(isinstance(one, list) for one in found)
    return None if is_lists and len(found) == len(row.metadata["solution"]) else "it has other partitions"


def board_of_life(answer: str, row: GymRow) -> str | None:
    """Refuse rows and cells outside the board: the library ignores them."""
    return None if strict_json(answer) == strict_json(row.gold) else "it is another board"


def same_json(answer: str, row: GymRow) -> str | None:
    """Refuse another value: for the library `1` equals `"1"`, and close numbers are equal."""
    is_same = answer == row.gold.strip() or strict_json(answer) == strict_json(row.gold)
    return None if is_same else "it is another value"


def assignment(answer: str, row: GymRow) -> str | None:
    """Refuse a letter with two digits: the library uses the last."""
    del row
    letters = re.findall(r"[^\s,=]+(?=\s*=)", answer)
    return None if len(letters) == len(set(letters)) else "a letter has two digits"


def readable(look: Callable[[str, GymRow], str | None]) -> Callable[[str, GymRow], str | None]:
    """Return a check that refuses an invalid notation instead of raising."""

    def looked(answer: str, row: GymRow) -> str | None:
        try:
            return look(answer, row)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            return f"it is not written as its prompt says: {error}"

    return looked


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _is_carried_out(
    place: tuple[float, float], action: str, state: Mapping[tuple[float, float], list[str]]
) -> bool:
    """Move a box according to an action, and return whether it is possible."""
    if (move := _BOX_MOVE.fullmatch(action)) is None:
        return False
    box, target = move[1], move[2]
    here = state.get(place, [])
    if target is not None:
        there, is_possible = (
            None,
            target in here and target.removeprefix("target_") == box.removeprefix("box_"),
        )
    else:
        x, y = _place(move[3], move[4])
        there = state.get((x, y))
        is_possible = there is not None and abs(x - place[0]) + abs(y - place[1]) == 1
    if box not in here or not is_possible:
        return False
    here.remove(box)
    if there is None:
        here.remove(target)
    else:
        there.append(box)
    return True


def _place(x: str, y: str) -> tuple[float, float]:
    return float(x), float(y)
