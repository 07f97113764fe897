"""Texts that others wrote are read within bounds: a rule on the source, and JSON that is deep, long or no JSON."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from broker.codec import pack, unpack
from broker.errors import BadMessage, PipelineError
from broker.messages import Prompt
from config.data import DatasetSource
from config.scorers import ScorersConfig
from learner.data.file_formats import file_tables
from learner.status import read_status
from scorers.reward_server.bodies import Bodies
from tasks.lines import parse_object
from tasks.route import route
from tests.support.groups import a_prompt
from tests.support.paths import PACKAGES, ROOT
from tests.support.sources import nodes_of
from tools.evaluate.results import ResultError, read_result

HARNESS = ROOT / "sandbox" / "harness"  # its texts are its own process's
LOADS = {"json.loads", "json.load"}


def loads_beside_value_error(path: Path) -> Iterator[int]:
    """Yield the lines of `try` that read JSON and know that it may be none, but not that it may be too deep."""
    for node in nodes_of(path):
        if not isinstance(node, ast.Try):
            continue
        calls = (one for part in node.body for one in ast.walk(part) if isinstance(one, ast.Call))
        caught = (one for handler in node.handlers if handler.type for one in ast.walk(handler.type))
        names = {one.id for one in caught if isinstance(one, ast.Name)}
        is_deaf = "ValueError" in names and not names & {"RecursionError", "Exception"}
        if is_deaf and any(ast.unparse(call.func) in LOADS for call in calls):
            yield node.lineno


def test_whoever_knows_that_a_text_may_be_no_json_knows_that_it_may_be_nested_too_deeply() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        if package != "broker"  # whose files are its own, and whose messages `codec.checked` reads
        for path in (ROOT / package).rglob("*.py")
        if path.parent != HARNESS and "json.load" in path.read_text(encoding="utf-8")
        for line in loads_beside_value_error(path)
    ]
    assert found == [], "except (ValueError, RecursionError)"


DEEP = "[" * 100_000
NESTED = "[" * 5000 + "]" * 5000
NUMBER = "9" * 5000
OBJECT = '{"a": ' * 5000 + "1" + "}" * 5000
SLIGHTLY = "[" * 300 + "]" * 300  # JSON, and more than travels


beyond_json = pytest.mark.parametrize(
    "text", [DEEP, NESTED, NUMBER, OBJECT], ids=["open", "nested", "number", "object"]
)


def score_line(text: str) -> Any:
    return parse_object(f'{{"llm_output": "x", "verification_info": {text}}}'.encode())


def routed(text: str) -> Any:
    return route({"verification_info": f'{{"type": "math", "answer": {{"value": {text}}}}}'})


def message(text: str) -> Any:
    tree = msgpack.unpackb(pack(a_prompt()))
    assert unpack(msgpack.packb(tree), Prompt).task == a_prompt().task
    return unpack(msgpack.packb(tree | {"verification_info": f'{{"type": {text}}}'}), Prompt)


@beyond_json
@pytest.mark.parametrize("read", [score_line, routed, message])
def test_rows_and_messages_that_are_beyond_json_are_bad_messages(
    read: Callable[[str], Any], text: str
) -> None:
    with pytest.raises(BadMessage):
        read(text)


def test_rows_are_no_deeper_than_what_travels() -> None:
    with pytest.raises(BadMessage, match="nested more than 100 deep"):
        routed(SLIGHTLY)


@beyond_json
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_file_of_rows_that_is_beyond_json_is_named(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    row = f'{{"messages": "a", "extra": {text}}}\n'
    file.write_text(f"[{row}]" if name.endswith(".json") else row, encoding="utf-8")
    source = DatasetSource.model_validate({"type": "dataset", "path": str(file)})
    tables = file_tables(source)
    assert tables is not None
    with pytest.raises(PipelineError, match=name):
        tables[0].columns()


@beyond_json
def test_a_result_or_a_status_that_is_beyond_json_is_named_or_counts_as_none(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "status.json"
    file.write_text(f'{{"a": {text}}}', encoding="utf-8")
    with pytest.raises(ResultError, match=r"status\.json is no JSON"):
        read_result(file)
    assert read_status(tmp_path) == {}


@beyond_json
@pytest.mark.parametrize(
    ("body", "is_batch"),
    [
        ('{{"llm_output": "x", "verification_info": {}}}', False),
        ('{{"llm_output": "x", "verification_info": {{"type": "math", "answer": {{"value": {}}}}}}}', False),
        ('{{"items": [{}]}}', True),
        ('{{"solutions": ["x"], "ground_truths": [{}]}}', False),
        ("{}", False),
    ],
)
def test_a_body_that_is_beyond_json_is_a_422(body: str, text: str, *, is_batch: bool) -> None:
    answer: Any = Bodies(ScorersConfig().tasks, has_prompts=False).read(
        body.format(text).encode(), is_batch=is_batch
    )
    assert answer.status_code == 422
    assert len(answer.body) < 1000
