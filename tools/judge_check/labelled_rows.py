r"""Read responses with known labels, as questions to a verifier, for `millrace judge-check`.

In: a `RowFile`. A row has a shape that `tasks.route` knows, the response in `llm_output`, and its true score in `label`
or `human_score`. A row of HardVerify-Math has a right answer in `fn_output` and a wrong one in `tn_output`. Out:
`Labelled`, with the line for a `scorers.child.row_worker`. The whole file is read before any verifier is asked: errors
in it are one ConfigError that names the lines.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import BadMessage
from config.explanations import ConfigError
from config.scorers import TaskConfig
from scorers.child.frames import TEXT_KEY
from scorers.child.row_worker import response_of
from tasks.kinds import TASK_OF_TYPE
from tasks.route import route
from tasks.values import shown
from tools.row_file import RowFile

LABEL_KEYS: Final = ("label", "human_score")
# HardVerify-Math's keys of answers that rules call wrong: the right one (a false negative) and the wrong one.
PARTS: Final[Mapping[str, float]] = {"fn_output": 1.0, "tn_output": 0.0}
SHOWN_ERRORS: Final = 5
# One of these keys identifies a row.
_ROW_SHAPES: Final = ("verification_info", "data_source", "reward_model")
_CHAT: Final = ("messages", "prompt")  # possible places of a row's question


@dataclass(frozen=True, slots=True)
class Labelled:
    """A response with a known label, and the line that asks a verifier about it."""

    number: int  # of the response's line, or of its row in a list or in parquet; from 1
    part: str  # the key of a response where a row has two; else ""
    source: str  # of the data: results are separated by source
    label: float  # the response's true score, in [0, 1]
    task: str  # the task that judges the response
    line: bytes  # for a `scorers.child.row_worker`

    @property
    def where(self) -> str:
        """Return the response's place in the file, for people."""
        return f"line {self.number} {self.part}".strip()

    def as_json(self) -> dict[str, Any]:
        """Return the object with a response's origin and label."""
        return {"line": self.number, "part": self.part, "source": self.source, "label": self.label}


def read_labelled(rows: RowFile, tasks: Mapping[str, TaskConfig], only: str | None) -> list[Labelled]:
    """Read every response of a file, in order.

    Args:
        rows: the file.
        tasks: the existing tasks.
        only: the task for all rows; None: each row's own task.
    Raises:
        ConfigError: with the first unusable lines, or because there are none.
    """
    found: list[Labelled] = []
    wrong: list[str] = []
    for line in rows.lines():
        try:
            found += _labelled(line.number, line.record(), tasks, only)
        except BadMessage as error:
            wrong.append(f"line {line.number}: {error}")
    if wrong:
        more = f"\nand {len(wrong) - SHOWN_ERRORS} more lines" if len(wrong) > SHOWN_ERRORS else ""
        raise ConfigError(f"{rows.name} can't be used:\n" + "\n".join(wrong[:SHOWN_ERRORS]) + more)
    if not found:
        raise ConfigError(f"{rows.name} has no rows")
    return found


def _labelled(
    number: int, row: Mapping[str, Any], tasks: Mapping[str, TaskConfig], only: str | None
) -> Iterator[Labelled]:
    """Yield a row's one response, or its two. Raises BadMessage."""
    row = {key: value for key, value in row.items() if value is not None}
    parts = [] if TEXT_KEY in row else [part for part in PARTS if part in row]
    if parts and not row.keys() & set(_ROW_SHAPES):
        answer = {"value": row.get("ground_truth"), "question": row.get("question")}
        row["verification_info"] = {
            "type": "judge" if only is None else _own_type(tasks[only], only),
            "answer": answer,
        }
    texts = {part: (_boxed(response_of({TEXT_KEY: row[part]})), PARTS[part]) for part in parts} or {
        "": (_response(row), _label(row))
    }
    row_type, task, info = _routed(row, tasks, only)
    source = row.get("source", row.get("data_source", row_type))
    for part, (text, label) in texts.items():
        line = json.dumps({TEXT_KEY: text, "task": task, "verification_info": info}).encode("ascii")
        yield Labelled(number, part, str(source), label, task, line)


def _response(row: Mapping[str, Any]) -> str:
    if TEXT_KEY not in row:
        raise BadMessage(
            f"no response: {TEXT_KEY!r} beside a label, or HardVerify-Math's {' and '.join(PARTS)}"
        )
    return response_of(row)


def _boxed(answer: str) -> str:
    """Put a bare answer into a box, as a response would: most verifiers read only the last box."""
    return answer if "\\boxed" in answer else f"\\boxed{{{answer}}}"


def _label(row: Mapping[str, Any]) -> float:
    given = [key for key in LABEL_KEYS if key in row]
    if len(given) != 1:
        what = "both of" if given else "no label: none of"
        raise BadMessage(f"{what} {' and '.join(LABEL_KEYS)}; one of them says what the response is worth")
    label = row[given[0]]
    if not isinstance(label, int | float) or not 0 <= label <= 1:  # true and false are 1 and 0
        raise BadMessage(f"{given[0]} must be true, false or a number from 0 to 1, got {shown(label)}")
    return float(label)


def _routed(
    row: Mapping[str, Any], tasks: Mapping[str, TaskConfig], only: str | None
) -> tuple[str, str, dict[str, Any]]:
    """Return the row's own type, the task that judges it, and its verification_info for that. Raises BadMessage.

    A row of a type that the one task does not accept becomes one of the task's own type, with the same answer.
    """
    if only is None or tasks[only].scorer.takes_rows_as_they_are:
        task, info = route(row if only is None else {**row, "task": only}, tasks)
        return info["type"], task, info
    _, info = route(row)
    row_type = info["type"]
    if row_type not in _types(tasks[only].scorer.type):
        info = {"type": _own_type(tasks[only], only), "answer": info.get("answer")}
    chat = {key: row[key] for key in _CHAT if key in row}
    return row_type, *route({**chat, "task": only, "verification_info": info}, {only: tasks[only]})


def _own_type(task: TaskConfig, name: str) -> str:
    return next(iter(_types(task.scorer.type)), name)


def _types(kind: str) -> Collection[str]:
    """Return the types of rows that a kind of scorer accepts, its own first; none for a custom one."""
    return [row_type for row_type, its_kind in TASK_OF_TYPE.items() if its_kind == kind]
