"""Right answers to entries of reasoning-gym that have none of their own: rush_hour and boxnet."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

SIDE: Final = 6  # of a board of rush_hour
GOAL: Final = 16  # where the first car's first cell has to be


def right_answer(entry: Mapping[str, Any]) -> str | None:
    """Return an answer that is right: the entry's own, its example, or one that is found here; None without one."""
    metadata = entry["metadata"]
    if entry["answer"] is not None:
        return str(entry["answer"])
    match metadata["source_dataset"]:
        case "rush_hour":
            return rush_hour(metadata["board_config"])
        case "boxnet":
            return boxnet(metadata["initial_state"])
    example = next(
        metadata[key]
        for key in ("example_answer", "example_correct_answer", "possible_answer")
        if key in metadata
    )
    return example if isinstance(example, str) else json.dumps(example)


def rush_hour(board: str) -> str | None:
    """Return the moves that bring the first car out, as few as there are."""
    cars = [[i for i, label in enumerate(board) if label == name] for name in sorted(set(board) - {"o", "x"})]
    walls = {i for i, label in enumerate(board) if label == "x"}
    start = tuple(cells[0] for cells in cars)
    shapes = [(len(cells), cells[1] - cells[0]) for cells in cars]
    reached: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {start: (start, "")}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if state[0] == GOAL:
            moves = []
            while state != start:
                state, move = reached[state]
                moves.append(move)
            return " ".join(reversed(moves))
        for after, move in _moves(state, shapes, walls):
            if after not in reached:
                reached[after] = (state, move)
                waiting.append(after)
    return None


def _moves(
    state: tuple[int, ...], shapes: list[tuple[int, int]], walls: set[int]
) -> Iterator[tuple[tuple[int, ...], str]]:
    taken = walls | {
        first + step * place
        for first, (length, step) in zip(state, shapes, strict=True)
        for place in range(length)
    }
    for number, (first, (length, step)) in enumerate(zip(state, shapes, strict=True)):
        for sign in (-1, 1):
            for far in range(1, SIDE):
                end = first + step * (far * sign + (length - 1 if sign > 0 else 0))
                if not 0 <= end < SIDE * SIDE or (step == 1 and end // SIDE != first // SIDE) or end in taken:
                    break
                after = (*state[:number], first + step * far * sign, *state[number + 1 :])
                yield after, f"{chr(ord('A') + number)}{'+' if sign > 0 else '-'}{far}"


def boxnet(state: Mapping[str, list[str]]) -> str:
    places = {
        item: [float(part) for part in key.split("_")] for key, items in state.items() for item in items
    }
    steps = []
    for box, place in places.items():
        if not box.startswith("box_"):
            continue
        target = f"target_{box[4:]}"
        for axis in (0, 1):
            while place[axis] != places[target][axis]:
                agent = f"Agent[{place[0]}, {place[1]}]"
                place[axis] += 1 if places[target][axis] > place[axis] else -1
                steps.append({agent: f"move({box}, square[{place[0]}, {place[1]}])"})
        steps.append({f"Agent[{place[0]}, {place[1]}]": f"move({box}, {target})"})
    return json.dumps(steps)
