"""Inputs and outputs of programs, foretold: what is right, what is paid for nothing, and rows that can't be scored."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from itertools import cycle
from typing import Any

import pytest

from broker.errors import BadMessage
from broker.messages import Score, ScoreStatus
from config.scorer_kinds import SimulationConfig
from config.scorers import ScorersConfig
from sandbox.program import Program, ReadyProgram, Sandbox, SandboxUnavailable
from scorers.code.scorer import CodeTests
from scorers.scorer import SelfTestFailed
from scorers.simulation.answers import answered_value
from scorers.simulation.scorer import Simulation
from scorers.simulation.values import Data, same
from scorers.text.extract import Unanswered
from tasks.route import route
from tests.scorers.simulation.corpus import (
    ATTACKS,
    HONEST,
    HONEST_BARE,
    NOTHING,
    ROWS,
    SUM,
    WRONG,
    WRONG_BARE,
    F,
    block,
    codeio,
    json_block,
)
from tests.support.growth import is_linear
from tests.support.text_tables import listed

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]


@pytest.fixture(scope="module")
def scorer(sandbox: Sandbox) -> Simulation:
    return Simulation(SimulationConfig(), ScorersConfig(), sandbox)


def told(row: str, text: str, score: Score) -> str:
    return f"{row}: {text[:100]!r} gave {score.value}: {score.reason}"


@pytest.mark.parametrize(
    ("cases", "value"),
    [
        pytest.param(HONEST[::6], 1.0, id="right"),
        pytest.param(WRONG[::6], 0.0, id="wrong"),
        pytest.param([case for number, case in enumerate(HONEST) if number % 6], 1.0, id="right, others"),
        pytest.param(HONEST_BARE, 1.0, id="right objects in the text"),
        pytest.param([case for number, case in enumerate(WRONG) if number % 6], 0.0, id="wrong, others"),
        pytest.param(WRONG_BARE, 0.0, id="wrong objects in the text"),
        pytest.param(ATTACKS, 0.0, id="attacks"),
    ],
)
def test_an_answer_is_worth_what_it_says(
    scorer: Simulation, cases: Sequence[tuple[str, str]], value: float
) -> None:
    failed = []
    for row, text in cases:
        score = scorer.score(text, ROWS[row])
        score.reason.encode()
        if score.value != value:
            failed.append(told(row, text, score))
    assert not failed, "\n".join(failed)


def test_saying_nothing_scores_nothing_without_a_sandbox() -> None:
    class Unversioned(Simulation):
        version = "1"

    scorer = Unversioned(
        SimulationConfig(), ScorersConfig(sandbox="fusion")
    )  # without a server: nothing can be run
    for row, info in ROWS.items():
        for text in NOTHING:
            score = scorer.score(text, info)
            assert (score.value, score.reason[:10]) == (0.0, "no answer:"), told(row, text, score)


def test_a_response_beyond_all_limits_is_refused_in_no_time(scorer: Simulation) -> None:
    started = time.process_time()
    pieces = (r"\boxed{", "```json\n", "```python\nassert f(", "[", '{"output":', "<answer>")
    for info, piece in zip(ROWS.values(), cycle(pieces), strict=False):
        score = scorer.score(piece * (1_000_000 // len(piece) + 1), info)
        assert (score.value, "characters" in score.reason) == (0.0, True), told(str(info), piece, score)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    "piece",
    [
        *listed(r"""
{¦}¦{"a":¦{"a":{"b":1}¦{"¦{"\¦{'¦{"a":1}¦"{¦{ "a" : {}¦```json⏎{
"""),
        "{" + " " * 50,
    ],
)
def test_objects_are_looked_for_in_linear_time(piece: str) -> None:
    def read(text: str) -> None:
        with suppress(Unanswered):
            answered_value(text, "output")

    size = 100_000 // len(piece)
    assert is_linear(read, lambda count: piece * count, size)
    assert is_linear(read, lambda count: piece * count + "}" * count, size)


def test_what_python_would_warn_of_in_an_answer_is_kept_out_of_the_log(scorer: Simulation) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for row, text in (
            ("a list", r"\boxed{'output': 1if 1else 2}"),
            ("crux output", block("assert f('\\d') is 1")),
        ):
            assert scorer.score(text, ROWS[row]).value == 0.0
    assert said == []


def test_values_are_alike_by_kind_and_content(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, object, bool, bool]] = [
        (1, 1.0, True, True), (1.0, 1, False, True), (True, 1, True, False), (1, True, False, False),
        (0.3, 0.1 + 0.2, True, True), (0.3, 0.1 + 0.2, False, False), (0, 1e-9, True, False),
        (3, 3.0000001, True, True), (8.0000001, 8, True, False), (10**400, 1.5, True, False),
        (float("inf"), 1e308, True, False),
        (1e308, float("inf"), True, False),
        (float("inf"), float("inf"), True, True),
        (float("nan"), float("nan"), True, True),
        (0, float("nan"), True, False), (2j, 2.0, True, False), ((1, [2]), [1, (2,)], True, True),
        ((1, 2), [1, 2], False, False), ([], {}, True, False), ("", None, True, False),
        ({1: 2, None: 3}, {"1": 2, "null": 3}, True, True),
        ({1: 2}, {"1": 2}, False, False),
        ({True: 2}, {"true": 2}, True, True),
        ({True: 2}, {1: 2}, False, False),
        ({1.0: 2}, {1: 2}, False, True), ({1, "a"}, {"a", 1}, False, True), ({True}, {1}, False, False),
        (frozenset({1}), {1}, False, False),
        ({(1, True)}, {(1, 1)}, False, False),
        (b"a", "a", False, False), (..., ..., False, True), ([1, 2], [1, 2, 3], True, False),
        ({"a": 1}, {"a": 1, "b": 2}, True, False),
        (object(), [1], True, False),
    ]  # fmt: skip
    for got, expected, is_json, is_same in cases:
        with subtests.test(got=got, expected=expected, is_json=is_json):
            assert same(got, expected, is_json) is is_same
            assert (got == Data(expected, is_json)) is is_same


def given(n: int) -> str:
    return f'\\boxed{{"input": {{"n": {n}}}}}'


def of_f(functional: str, asserted: str, **answer: Any) -> tuple[dict[str, Any], str]:
    return {"type": "cruxeval", "answer": {"functional": functional, **answer}}, block(f"assert {asserted}")


@pytest.mark.parametrize(
    ("row", "text", "said"),
    [
        (codeio('"input": {"n": 16}', code=SUM, output={"sum": 8, "root": 4.0}), given(16), "expected"),
        (codeio('"input": {"n": 13}', code=SUM), given(13), "unlucky"),
        (codeio('"input": {"n": 1}', code="import no_such\n" + SUM), given(1), "no_such"),
        (codeio('"input": {"n": 1}', code="def main_solution(n): return object()"), given(1), "object"),
        (*of_f(F, "f('ab', 1) == 1", predict="input", input="'ab', 1", output="1"), "expected 1"),
        (*of_f("def f(): return f", "f() == 1", input=""), "object"),
        (*of_f("def f(d): return 1", "f({}.keys()) == 1", input="{}.keys()"), "dict_keys"),
        (*of_f("import no_such\ndef f(): return 1", "f() == 1", output="1"), "no_such"),
    ],
)
def test_a_program_that_fails_its_row_is_no_0(
    scorer: Simulation, row: dict[str, Any], text: str, said: str
) -> None:
    score = scorer.score(text, row)
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None), score.reason
    assert "the row's program fails its own row" in score.reason
    assert said in score.reason


def test_an_input_on_which_the_program_hangs_is_wrong_after_a_second_try(sandbox: Sandbox) -> None:
    hasty = Simulation(SimulationConfig(deadline_s=1.6), ScorersConfig(), sandbox)
    row = codeio('"input": {"n": 3}', code="def main_solution(n):\n    while n < 0: pass\n    return n")
    score = hasty.score(r'\boxed{"input": {"n": -3}}', row)
    assert (score.value, score.components) == (0.0, {"over_limit": 1.0}), score.reason


def test_a_share_of_a_groups_time_cuts_the_answers_run_off_and_not_the_rows_trial(sandbox: Sandbox) -> None:
    scorer = Simulation(SimulationConfig(), ScorersConfig(), sandbox)
    slow = codeio(
        '"input": {"n": 3}', code="import time\ndef main_solution(n):\n    time.sleep(n / 5)\n    return n"
    )
    scorer.own_time.share_s = 0.4  # less than the row's own input needs
    score = scorer.score(r'\boxed{"input": {"n": 100}}', slow)
    assert (score.value, score.components) == (0.0, {"over_limit": 1.0}), score.reason
    assert 0.4 <= scorer.own_time.ran_s < 4.0


class Failing:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def prepare(self, program: Program) -> AbstractContextManager[ReadyProgram]:
        raise SandboxUnavailable("away")


def test_a_sandbox_that_fails_makes_no_zero(sandbox: Sandbox) -> None:
    lost: Any = Failing(sandbox)
    scorer = Simulation(SimulationConfig(), ScorersConfig(), lost)
    with pytest.raises(SandboxUnavailable, match="away"):
        scorer.score(r'\boxed{"input": {"n": 16, "power": 2}}', ROWS["an input"])
    assert scorer.score(r'\boxed{"output": [1, 2]}', ROWS["a list"]).value == 1.0  # nothing runs


def test_a_row_that_lacks_something_is_refused_by_name(scorer: Simulation, subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "a codeio row needs"),
        ({"value": 5}, "without 'predict'"),
        ({"value": "5"}, "without 'predict'"),
        ({"value": '"result": 5'}, "its 'input' or its 'output'"),
        ({"value": '"output": 5, "input": 3'}, "without 'predict'"),
        ({"predict": "code", "value": 5}, "its 'input' or its 'output'"),
        ({"predict": "input", "value": 5}, "variables"),
        ({"value": '"input": {"n": 1}', "code": "def f(n): return 1"}, "no function 'main_solution'"),
        ({"value": '"input": {"n": 1}', "code": "def f("}, "no program in Python"),
        ({"value": '"input": {"n": 1}', "code": 5}, "the text of a program"),
        ({"value": '"input": {"n": 1}', "code": SUM, "entry": "a b"}, "name of a function"),
        ({"functional": "x = 1", "output": "1"}, "no function 'f'"),
        ({"functional": " ", "output": "1"}, "the text of a"),
        ({"functional": "def f(): pass"}, "'input' or 'output'"),
        ({"functional": "def f(): pass", "input": "1", "output": "1"}, "and 'predict'"),
        ({"functional": "def f(): pass", "input": "1", "predict": "input"}, "needs the 'output'"),
        ({"functional": "def f(): pass", "output": "1", "predict": "output"}, "needs the 'input'"),
        ({"functional": "def f(): pass", "output": "g()"}, "a literal of Python"),
        ({"functional": "def f(): pass", "output": 1}, "a literal of Python"),
        ({"functional": "def f(): pass", "input": "1) + (2"}, "text of the arguments"),
        ({"functional": "def f(): pass", "input": [1]}, "text of the arguments"),
    ]
    for answer, message in cases:
        with subtests.test(answer=answer):
            row_type = "cruxeval" if "functional" in answer else "codeio"
            with pytest.raises(BadMessage, match=message):
                scorer.check_row({"type": row_type, "answer": answer})


def verl(source: str, truth: str, prompt: str, **extra: Any) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": prompt}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": 0, **extra},
    }


CODEIO_PROMPT = f"""Which number?
Given the following output:{" "}
{{"sum": 7, "root": 4.0}}
Can you predict a feasible input without writing any code? Please reason.
Tip: Here is a reference code snippet for this question. You may read it.
{SUM}

Please output the final answer within ```json```"""
FUNCTION = "def f(x):\n    return [x + 1] * 2"


def crux_prompt(assertion: str) -> str:
    return f"For example\nassert f(??) == 1\n\n```python\n{FUNCTION}\nassert {assertion}\n```\n"


CODEIO, CRUX_OF_INPUT, CRUX_OF_OUTPUT = (
    f"simulation__{name}" for name in ("codeio", "cruxeval-i", "cruxeval-o")
)
SIXTEEN = '"input": {"n": 16}'
OF_FUNCTION = json.dumps({"functional": FUNCTION})
MINE = {"refcode": SUM.replace("main_", "my_"), "funcname": "my_solution"}
ASSERTED = {"reference": "[4, 4]", "original_prompt": crux_prompt("f(3) == ??")}
THREE, FOUR = block("assert f(3) == [4, 4]"), block("assert f(4) == [5, 5]")


@pytest.mark.parametrize(
    ("row", "right", "wrong"),
    [
        (verl(CODEIO, SIXTEEN, CODEIO_PROMPT), given(-16), given(25)),
        (verl(f"{CODEIO}_12.1k", SIXTEEN, "?"), given(16), given(-16)),
        (verl(CODEIO, SIXTEEN, "?", **MINE), given(-16), given(-25)),
        (verl(CODEIO, '"output": null', CODEIO_PROMPT), json_block('"output": null'), "null"),
        (verl(CRUX_OF_INPUT, OF_FUNCTION, crux_prompt("f(??) == [4, 4]"), reference="[4, 4]"), THREE, FOUR),
        (verl(CRUX_OF_OUTPUT, OF_FUNCTION, "?", **ASSERTED), THREE, FOUR),
        (verl(CRUX_OF_OUTPUT, OF_FUNCTION, crux_prompt("f(3) == ??")), THREE, block("assert f(3) == [4]")),
    ],
)
def test_reasoning360s_rows_are_read_with_what_their_prompts_say(
    scorer: Simulation, row: dict[str, Any], right: str, wrong: str
) -> None:
    task, info = route(row)
    assert task == "simulation"
    assert [scorer.score(text, info).value for text in (right, wrong)] == [1.0, 0.0]


def test_the_prompts_output_is_what_an_input_must_give() -> None:
    _, info = route(verl(CODEIO, SIXTEEN, CODEIO_PROMPT))
    assert info["answer"] == {
        "value": '"input": {"n": 16}',
        "code": SUM.strip(),
        "output": {"sum": 7, "root": 4.0},
    }
    asked = crux_prompt("f(??) == ') == '")
    _, info = route(verl(CRUX_OF_INPUT, OF_FUNCTION, asked))
    assert info["answer"] == {"functional": FUNCTION, "predict": "input", "output": "') == '"}


def test_a_row_of_cruxeval_that_does_not_say_what_is_asked_is_refused_by_name() -> None:
    with pytest.raises(BadMessage, match="does not say what is asked"):
        route(verl(CRUX_OF_OUTPUT, OF_FUNCTION, "?", reference="[4, 4]"))


def test_the_self_test_passes(scorer: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CodeTests, "self_test", lambda _: None)  # its own tests have it; it waits for seconds
    scorer.self_test()


def test_the_self_test_notices_a_scorer_that_pays_for_everything(
    scorer: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CodeTests, "self_test", lambda _: None)
    monkeypatch.setattr(Simulation, "_run", lambda self, *_: self._score(0.0, 1.0, "paid"))
    with pytest.raises(SelfTestFailed, match=r"a wrong input gave 1\.0"):
        scorer.self_test()
