"""Every row that users of this system and of its relatives have, and what becomes of it."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from broker.errors import BadMessage
from config.scorer_kinds import CodeConfig, CustomConfig, MathConfig, RubricConfig, SweConfig, TinyvConfig
from config.scorers import TaskConfig
from tasks.kinds import DATA_SOURCES, KINDS, TASK_OF_TYPE
from tasks.route import route
from tasks.values import shown

CASES = {"inputs": ["1\n"], "outputs": ["2\n"]}
EDIT = {"input": "a = 1\n", "ground_truth": "a = 2\n"}
TASKS = {
    "math": TaskConfig(),
    "hard": TaskConfig(scorer=MathConfig(deadline_s=60.0)),
    "gsm8k": TaskConfig(scorer=MathConfig()),
    "code": TaskConfig(scorer=CodeConfig()),
    "parity": TaskConfig(scorer=CustomConfig(import_path="parity:Parity")),
}


def verl(source: str, truth: Any, **extra: Any) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": "?"}],
        "ability": "any",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": 0, **extra},
    }


def info(row_type: Any, answer: Any = None, **more: Any) -> dict[str, Any]:
    """Return a row with `verification_info` alone."""
    return {"verification_info": {"type": row_type, "answer": answer, **more}}


def refused(row: Mapping[str, Any], message: str, *run: Any) -> None:
    with pytest.raises(BadMessage, match=message):
        route(row, *run)


@pytest.mark.parametrize(
    ("row_type", "task", "answer"),
    [
        ("math", "math", {"value": "72"}),
        ("math_verifiable", "math", {"value": "\\frac{1}{2}"}),
        ("gsm8k", "math", {"value": "72"}),
        ("hendrycks_math", "math", {"value": "72"}),
        ("prime_math", "math", {"value": "72"}),
        ("code_verifiable", "code", {"language": "python", "test_cases": [{"input": "3\n5", "output": "8"}]}),
        ("code", "code", CASES),
        ("code", "code", CASES | {"fn_name": "f"}),
        ("code", "code", {"functional": "assert f()"}),
        ("code", "code", {"tests": ["assert f(1) == 2"]}),
        ("code", "code", {"pytest": "from solution import f"}),
        ("swe_verifiable", "swe", EDIT),
        ("swe", "swe", {"code_context": {"a": "1"}, "oracle_new_content": {"a": ""}}),
        ("hitab", "table", {"value": "12.5|9.1", "ordered": True}),
        ("finqa", "table", {"value": 0.5, "percent": True}),
        ("multihier", "table", {"value": "3"}),
        ("choice", "choice", {"value": "C", "options": 4}),
        (
            "ifeval",
            "instructions",
            {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"n": None}]},
        ),
        ("ifbench", "instructions", {"value": "[{'instruction_id': ['count:x'], 'kwargs': [None]}]"}),
        ("qa_em", "search", {"value": ["Paris"]}),
        ("qa_em", "search", {"value": {"target": ["Paris"]}}),
        ("swe", "swe", {"oracle_patches": {"a.py": "--- a\n"}}),
        ("swe", "swe", EDIT | {"files": {}, "test_command": "x"}),
        ("codeio", "simulation", {"value": '"output": null'}),
        ("codeio", "simulation", {"predict": "output", "value": [1]}),
        ("cruxeval", "simulation", {"functional": "def f(): pass", "input": ""}),
        ("cruxeval", "simulation", {"functional": "def f(): pass", "output": "None"}),
    ],
)
def test_a_row_with_verification_info_goes_to_the_task_of_its_type_unchanged(
    row_type: str, task: str, answer: Mapping[str, Any]
) -> None:
    said = {"type": row_type, "answer": answer, "id": "kept"}
    for written in (said, json.dumps(said)):
        assert route({"verification_info": written, "messages": []}) == (task, said)


SOURCES_OF_MATH = {
    "gsm8k": "openai/gsm8k",
    "hendrycks_math": "lighteval/MATH DigitalLearningGmbH/MATH-lighteval simplelr_qwen math "
    "HuggingFaceH4/MATH-500",  # verl 0.5.0 and later
    "prime_math": "numina_aops_forum numina_synthetic_math numina_amc_aime numina_synthetic_amc numina_cn_k12 "
    "numina_olympiads orz_math_prime OLYMPIAD_BENCH MINERVA MATH AMC AIME math_dapo aime2025 aime_2024 "
    "math_dapo_reasoning math__merged_deduped_dapo_or1_dataset",  # verl 0.6.0 and later has math_dapo_reasoning
    "math": "polaris_mathverify math__combined_mathverify",
}


@pytest.mark.parametrize(
    ("source", "row_type"),
    [(source, row_type) for row_type, sources in SOURCES_OF_MATH.items() for source in sources.split()],
)
def test_a_math_row_of_verl_is_routed_by_its_data_source(source: str, row_type: str) -> None:
    assert route(verl(source, "204")) == ("math", {"type": row_type, "answer": {"value": "204"}})


SOURCES_OF_CODE = ["codecontests", "apps", "codeforces", "taco", "codegen__taco", "codegen__mbpp"]
SOURCES_OF_CODE += ["codegen__primeintellect", "codegen__livecodebench"]


@pytest.mark.parametrize("source", SOURCES_OF_CODE)
def test_a_code_row_of_verl_has_its_tests_in_the_ground_truth(source: str, subtests: pytest.Subtests) -> None:
    tests = ({"functional": "check(f)"}, {"pytest": "from solution import f"})
    for truth in (CASES, CASES | {"fn_name": "f"}, *tests):
        with subtests.test(truth=truth):
            for written in (truth, json.dumps(truth)):
                assert route(verl(source, written)) == ("code", {"type": "code", "answer": truth})


def test_reasoning360s_prefix_stands_before_functional_tests_and_no_others() -> None:
    functional = route(verl("codegen__leetcode2k", '{"functional": "check(f)"}', prefix="import math"))[1]
    assert functional["answer"] == {"functional": "check(f)", "prefix": "import math"}
    assert route(verl("codegen__taco", json.dumps(CASES), prefix="import math"))[1]["answer"] == CASES
    functional = route(verl("codegen__mbpp", '{"functional": "check(f)"}', prefix=None))[1]
    assert "prefix" not in functional["answer"]


SOURCES_OF_LOGIC = {
    "zebra": "zebra_puzzle_dataset logic__zebra_puzzle_dataset logic__zebra_puzzle",
    "ordering": "ordering_puzzle_dataset logic__ordering_puzzle_dataset",
    "graph": "graph_logical_dataset logic__graph_logical_dataset logic__graph_logical",
    "arc": "simulation__arcagi1 simulation__arcagi2 simulation__barc logic__arcagi1 logic__arcagi2 logic__barc",
}


@pytest.mark.parametrize(
    ("source", "row_type"),
    [(source, row_type) for row_type, sources in SOURCES_OF_LOGIC.items() for source in sources.split()],
)
def test_a_logic_row_of_verl_is_routed_by_its_data_source(source: str, row_type: str) -> None:
    value = [[1, 2], [3, 4]]
    for truth in (value, np.array(value), np.array([np.array(row) for row in value], dtype=object)):
        assert route(verl(source, truth)) == ("logic", {"type": row_type, "answer": {"value": value}})
    assert route(verl(source, "[[1, 2], [3, 4]]"))[1]["answer"] == {"value": "[[1, 2], [3, 4]]"}


@pytest.mark.parametrize(
    ("truth", "value"),
    [
        ("142.0", "142.0"),
        ("9.6\n", "9.6"),
        (["2"], "2"),
        ([["2"]], "2"),
        (np.array(["2"], object), "2"),
        (42, "42"),
        (0.5, "0.5"),
        (np.float64(0.25), "0.25"),
        (np.int64(-3), "-3"),
        (0, "0"),
        pytest.param(10**4000, "1" + "0" * 4000, id="long"),
    ],
)
def test_references_of_odd_kinds_become_text(truth: Any, value: str) -> None:
    assert route(verl("AIME", truth))[1]["answer"] == {"value": value}
    for answer in ({"value": truth}, truth):
        assert route(info("math", answer))[1]["answer"] == {"value": value}


@pytest.mark.parametrize(
    "truth", [["2", "3"], [], "", " \n", True, float("nan"), float("inf"), {"a": 1}, [""]]
)
def test_what_is_no_one_value_is_no_reference(truth: Any) -> None:
    refused(verl("AIME", truth), "no answer")


@pytest.mark.parametrize("source", ["ood__of_tomorrow", "logic__of_tomorrow"])
def test_a_known_data_source_without_a_scorer_is_refused_by_name(source: str) -> None:
    refused(verl(source, "1"), f"data_source '{source}' are not scored by this version")


@pytest.mark.parametrize(
    ("source", "truth", "task", "row_type", "value"),
    [
        ("table__multihier", "3.5", "table", "multihier", "3.5"),
        ("table__finqa", 0.141, "table", "finqa", 0.141),
        ("stem__gpqa", "C", "choice", "choice", "C"),
        ("stem__gpqa_diamond_no_box", "C", "choice", "choice", "C"),
        ("stem__supergpqa", "J", "choice", "choice", "J"),
        ("searchR1_nq", {"target": np.array(["a", "b"], object)}, "search", "qa_em", ["a", "b"]),
        ("searchR1_2wikimultihopqa", '{"target": "a"}', "search", "qa_em", ["a"]),
        ("searchR1_bamboogle", ["a"], "search", "qa_em", ["a"]),
        ("searchR1_popqa", "a", "search", "qa_em", ["a"]),
        ("hiyouga/geometry3k", "2 \\sqrt{221}", "math", "math", "2 \\sqrt{221}"),
    ],
)
def test_a_row_with_a_short_answer_is_routed_by_its_data_source(
    source: str, truth: Any, task: str, row_type: str, value: Any
) -> None:
    assert route(verl(source, truth)) == (task, {"type": row_type, "answer": {"value": value}})


@pytest.mark.parametrize(
    ("question", "truth", "flags"),
    [
        ("what percentage of men ...?", "54.8", {"percent": True}),
        ("what were the shares of a and b respectively?", "34.8|41.8", {"percent": True, "ordered": True}),
        ("how many were enumerated?", "2548", {}),
    ],
)
def test_the_question_of_a_table_says_how_its_answers_are_meant(
    question: str, truth: str, flags: Mapping[str, bool]
) -> None:
    text = f"You are given one or more tables.\n| percent | respectively |\nThe question is:\n{question}\nBox it."
    row = verl("table__hitab", truth) | {"prompt": np.array([{"role": "user", "content": text}], object)}
    assert route(row) == ("table", {"type": "hitab", "answer": {"value": truth, **flags}})
    raw = verl("table__multihier", truth) | {"prompt": [], "raw_prompt": text, "extra_info": None}
    assert route(raw) == ("table", {"type": "multihier", "answer": {"value": truth, **flags}})


@pytest.mark.parametrize(
    ("source", "near"),
    [("table__hitabs", "table__hitab"), ("table__wikitq", "table__hitab"), ("searchR1_squad", "searchR1_nq")],
)
def test_a_data_source_beside_the_known_ones_is_an_error_with_the_nearest(source: str, near: str) -> None:
    refused(verl(source, "1"), f"unknown data_source '{source}'; did you mean {near}")


def test_every_data_source_has_a_row_type_that_has_a_task() -> None:
    assert {row_type for _, row_type in DATA_SOURCES if row_type} <= set(TASK_OF_TYPE)
    assert set(TASK_OF_TYPE.values()) == {kind.name for kind in KINDS if kind.rows}


def test_a_reward_metric_that_is_not_ours_is_refused() -> None:
    row = verl("math__combined", "1", reward_metric="prime_mth")
    refused(row, r"unknown extra_info.reward_metric 'prime_mth'.*default, prime_math, math")


@pytest.mark.parametrize("metric", ["default", "prime_math", None])
def test_reasoning360s_own_metrics_are_prime_math(metric: str | None) -> None:
    assert route(verl("math__combined", "1", reward_metric=metric))[1]["type"] == "prime_math"


LLM_JUDGE = {"reward_metric": "math_llm_judge", "original_question": "Area?"}


@pytest.mark.parametrize(
    ("source", "extra", "row_type", "question"),
    [
        ("stem_web", {"question": "How warm?"}, "stem_llm_judge", "How warm?"),
        ("stem__web", {}, "stem_llm_judge", "?"),  # the prompt, where there is nothing better
        ("math__combined", LLM_JUDGE, "math_llm_judge", "Area?"),
    ],
)
def test_a_row_for_reasoning360s_judges_brings_its_question(
    source: str, extra: dict[str, Any], row_type: str, question: str
) -> None:
    answer = {"value": "4.5 J", "question": question}
    assert route(verl(source, "4.5 J", **extra)) == ("judge", {"type": row_type, "answer": answer})


@pytest.mark.parametrize(
    "row",
    [
        verl("openai/gsm8k", "72"),
        verl("AIME", ["204"]),
        verl("math__combined", "1", **LLM_JUDGE),
        verl("codegen__taco", '{"inputs": ["1"], "outputs": ["2"]}'),
        verl("logic__zebra_puzzle", {"header": ["Position", "Pet"], "rows": [["1", "cat"]]}),
        verl("simulation__arcagi1", np.array([[1, 2]])),
        verl("table__finqa", 0.5),
        verl("searchR1_nq", {"target": np.array(["Paris"], object)}),
        verl("ood__ifeval", [{"num_words": None}], instruction_id_list=["punctuation:no_comma"]),
        verl("ood__livebench", "3", task="spatial"),
        verl("polaris_tinyv", "1", criteria="one", question="?"),
        verl("grade", 0.0),
    ],
    ids=lambda row: row["data_source"],
)
def test_the_arguments_of_verls_compute_score_are_the_row_that_they_come_from(row: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {key: row[key] for key in ("data_source", "extra_info") if key in row}
    arguments |= {"ground_truth": row["reward_model"]["ground_truth"]}
    of_the_row = route({key: value for key, value in row.items() if key != "prompt"})
    assert route(arguments) == of_the_row
    assert route({**arguments, "reward_model": None}) == of_the_row
    assert route({**arguments, "type": "x", "solution_str": "y", "answer": None}) == of_the_row
    if not row.get("extra_info"):
        assert route({**arguments, "extra_info": None}) == of_the_row


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"data_source": "AIME", "reward_model": {"style": "rule"}, "ground_truth": "2"},
            "no ground_truth, only style"),
        ({"data_source": "AIME", "ground_truth": None}, "no answer: ground_truth is None"),
        ({"data_source": "AIME", "ground_truth": 10**5000},
            "ground_truth holds an integer of more than 4,300 digits"),
        ({"data_source": None, "ground_truth": "1", "reward_model": None, "extra_info": {}},
            r'no known shape, .*, or \{"data_source": \.\.\., "ground_truth": \.\.\.\}$'),
    ],
    ids=["style", "none", "long", "shape"],
)  # fmt: skip
def test_a_ground_truth_that_is_none_is_refused(row: dict[str, Any], message: str) -> None:
    refused(row, message)


def test_a_reward_model_is_stronger_than_a_column_of_the_same_name() -> None:
    assert route({**verl("AIME", "1"), "ground_truth": "2"})[1]["answer"]["value"] == "1"


CRITERIA = "1. Sets up the recurrence (4 points)\n2. States 42 (6 points)"


@pytest.mark.parametrize("source", ["polaris_tinyv", "bigmath_rl_tinyv", "a_tinyv_b", "HardVerify-Math"])
def test_a_row_with_criteria_is_for_a_rubric_model_and_one_without_for_tinyv(source: str) -> None:
    answer = {"value": "42", "question": "Compute it."}
    plain = verl(source, ["42"], question="Compute it.", criteria=None)
    graded = ("rubric", {"type": "rubric", "answer": answer | {"criteria": CRITERIA}})
    assert route(verl(source, "42", question="Compute it.", criteria=CRITERIA)) == graded
    assert route(plain | {"criteria": CRITERIA}) == graded
    for ungraded in (plain, plain | {"criteria": " \n"}):
        assert route(ungraded) == ("tinyv", {"type": "tinyv", "answer": answer})
    assert route(verl(source, "42"))[1]["answer"] == {"value": "42", "question": "?"}  # the prompt
    refused(plain | {"criteria": ["1"]}, r"criteria must be text, got \['1'\]")


def test_in_a_run_with_one_verifier_rows_are_for_that_one() -> None:
    rubric, tinyv = {"rubric": TaskConfig(scorer=RubricConfig())}, {"tinyv": TaskConfig(scorer=TinyvConfig())}
    plain, graded = verl("polaris_tinyv", "42"), verl("polaris_tinyv", "42", criteria=CRITERIA)
    tasks = [route(graded, of_run)[0] for of_run in (rubric, tinyv, rubric | tinyv)]
    assert tasks == ["rubric", "tinyv", "rubric"]
    assert [route(plain, of_run)[0] for of_run in (tinyv, rubric | tinyv)] == ["tinyv", "tinyv"]
    needs = (
        r"no criteria to grade by: a row of data_source 'polaris_tinyv' has them in extra_info.criteria .* "
    )
    refused(plain, needs + r"scorers\.tasks\.tinyv\.scorer\.type=tinyv", rubric)


@pytest.mark.parametrize(
    ("key", "said", "ours"),
    [
        ("tinyv_setup", "tinyv_only", r"mode says it for all rows, and is 'mixed'"),
        ("tinyv_weight", 1.0, r"weight says it for all rows, and is 0\.5"),
    ],
)
def test_a_row_that_chooses_its_own_mode_is_refused_with_the_setting_that_does(
    key: str, said: Any, ours: str
) -> None:
    tasks = {"tinyv": TaskConfig(scorer=TinyvConfig(mode="mixed", weight=0.5)), "math": TaskConfig()}
    row = verl("polaris_tinyv", "42")
    plain = route(row, tasks)
    for same in ({key: None}, {"tinyv_setup": "mixed"}, {"tinyv_weight": 0.5}):
        assert route(row | {"reward_model": row["reward_model"] | same}, tasks) == plain
    chosen = row | {"reward_model": row["reward_model"] | {key: said}}
    setting = (
        rf"reward_model\.{key} is {said!r}, which a row can't choose: scorers\.tasks\.tinyv\.scorer\.{ours}"
    )
    refused(chosen, setting, tasks)
    assert route(chosen | {"data_source": "AIME"}, tasks)[0] == "math"  # it is about TinyV's rows alone


def test_a_rubric_model_is_told_the_prompt_where_a_row_has_no_question_and_needs_no_reference() -> None:
    for own, written in (({}, {}), ({"value": 42.0}, {"value": "42.0"})):
        answer = {**written, "criteria": CRITERIA, "question": "Prove it."}
        row = info("rubric", {**own, "criteria": CRITERIA}) | {"prompt": "Prove it."}
        assert route(row) == ("rubric", {"type": "rubric", "answer": answer})


def test_a_judge_is_told_the_last_thing_that_the_user_asks() -> None:
    plain = info("llm_judge", {"value": "Paris"})
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "And of France?"},
        {"role": "assistant", "content": ""},
    ]
    asked = info("llm_judge", {"value": "Paris", "question": "And of France?"})
    for chats in ({"messages": chat}, {"prompt": np.array(chat, object)}, {"prompt": "And of France?"}):
        assert route(plain | chats) == ("judge", asked["verification_info"])
    no_chats: Any = (
        {},
        {"messages": 1},
        {"prompt": {"role": "user"}},
        {"messages": [None, "user", {"role": "user"}]},
    )
    for nothing in no_chats:
        assert route(plain | nothing) == ("judge", plain["verification_info"])
    assert route(asked | {"prompt": "Another one?"}) == ("judge", asked["verification_info"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, r"the keys none; known are \{.verification_info.: .*\}, or \{.data_source."),
        ({"question": "2 + 3?", "answer": "5"}, "the keys question, answer; known are"),
        ({"verification_info": None}, "verification_info is missing or null"),
        ({"verification_info": "{nope"}, "verification_info is not JSON: .*nope"),
        ({"verification_info": "[" * 100_000}, "verification_info is not JSON"),
        ({"verification_info": "9" * 5000}, "verification_info is not JSON"),
        ({"verification_info": "[1]"}, "must be an object, got list"),
        (info(None, {"value": "5"}), "needs a type, one of math, .*; got None"),
        (info(["math"]), r"needs a type, .*; got \['math'\]"),
        (info("code_verifable", CASES), "did you mean code_verifiable?"),
        (info("llm_judge", {"value": ""}), "no answer to check against"),
        (info("rubric", {"value": "4", "question": "2 + 2?"}),
            "needs criteria; its answer has value, question"),
        (info("rubric", {"criteria": " "}), "needs criteria; its answer has nothing"),
        (info("tinyv", {"question": "2 + 2?"}), "no answer to check against"),
        (info("math"), "no answer to check against in verification_info: the value is None"),
        (info("code", {}), "needs test_cases, or inputs and outputs, or .*nothing"),
        (info("code", {"inputs": []}), "its answer has inputs$"),
        (info("code", "print(1)"), "needs an object with test_cases"),
        (info("swe", {"input": "x"}), "needs input and ground_truth, or code_context"),
        (info("math", {"value": "1"}, when=dt.timedelta(1)), "can't be written as JSON: timedelta"),
        (info("math", {"value": "\ud800"}), "text that is no Unicode"),
        (info("math", {"value": 10**4300}), "an integer of more than 4,300 digits"),
        (info("arc", {"value": [[-(10**5000)]]}), "of more than 4,300 digits"),
        (info("livebench", {"value": "1", "task": 10**5000}), "than 4,300 digits"),
        (verl("AIME", 10**5000), "reward_model holds an integer of more than 4,300 digits"),
        (verl("AIME", "1", index=10**5000), "extra_info holds an integer of more than 4,300 digits"),
        (info("math", {1: "1"}), "the key 1 is no text"),
        ({"data_source": "AIME"}, "reward_model must be an object, got NoneType"),
        ({"data_source": "AIME", "reward_model": {"style": "rule"}},
            "reward_model has no ground_truth, only style"),
        ({"reward_model": {"ground_truth": "1"}}, "data_source must be a name, got None"),
        (verl("openai/gsm8", "1"), "unknown data_source 'openai/gsm8'; did you mean openai/gsm8k?"),
        (verl("Math", "1"), "unknown data_source 'Math'; did you mean math?"),
        (verl("apps", "print(1)"), "reward_model.ground_truth is not JSON"),
        (verl("apps", "[]"), "reward_model.ground_truth must be an object, got list"),
        (verl("codegen__x", '{"solution_file": "x"}'), "its answer has solution_file"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_row_is_named(row: Mapping[str, Any], message: str) -> None:
    refused(row, message)


def test_nesting_has_a_limit() -> None:
    deep: Any = "1"
    for _ in range(200):
        deep = [deep]
    refused(info("code", {"inputs": deep, "outputs": []}), "nested more than 100 deep")


def test_what_parquet_makes_of_a_row_is_undone() -> None:
    """Arrays for lists, and in every object the keys that only other rows have, null."""
    new = {"oracle_new_content": {"a.py": "2"}}
    answer = {"code_context": {"a.py": "1", "b.py": None}, **new, "value": None, "files": None}
    left = {"code_context": {"a.py": "1"}, **new}
    assert route(info("swe", answer, source=None))[1] == {"type": "swe", "source": None, "answer": left}
    cases = np.array([{"input": "1", "output": "2"}], dtype=object)
    found = route(info("code", {"test_cases": cases}))[1]["answer"]
    assert found == {"test_cases": [{"input": "1", "output": "2"}]}
    inputs = np.array([np.array([1, 2]), None], dtype=object)
    truth = {"inputs": inputs, "outputs": (True, {"a": None}), "fn_name": None}
    found = route(verl("apps", truth))[1]["answer"]
    assert found == {"inputs": [[1, 2], None], "outputs": [True, {"a": None}]}
    row = verl("apps", json.dumps(CASES))
    row |= {"reward_model": json.dumps(row["reward_model"]), "extra_info": None, "verification_info": None}
    assert route(row)[1]["answer"] == CASES


@pytest.mark.parametrize(
    ("row", "task"),
    [
        (info("math", "1"), "math"),
        (info("prime_math", "1"), "math"),
        (info("gsm8k", "1"), "gsm8k"),  # a task of that name comes first
        ({"task": "hard", **info("math", "1")}, "hard"),
        ({"task": None, **info("math", "1")}, "math"),
        ({"task": "something of verl's users", **verl("AIME", "1")}, "math"),
        (info("parity", {"even": None}), "parity"),
        ({"task": "parity", "verification_info": {"type": "anything"}}, "parity"),
    ],
)
def test_the_tasks_of_a_run_decide(row: Mapping[str, Any], task: str) -> None:
    assert route(row, TASKS)[0] == task


def test_a_custom_scorers_answer_is_left_as_it_is() -> None:
    row = info("parity", {"even": None})
    assert route(row, TASKS) == ("parity", row["verification_info"])
    expected = {"type": "parity", "answer": {"value": [1, None]}, "extra_info": {"index": 0, "level": 3}}
    assert route(verl("parity", [1, None], level=3), TASKS) == ("parity", expected)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            info("swe", EDIT),
            r"no scorer for task 'swe'; .* has math, .*: add scorers\.tasks\.swe\.scorer\.type=swe",
        ),
        (info("parityy", "1"), "did you mean parity?"),
        ({"task": "hard", **info("code", CASES)}, "task 'hard' takes rows of type math, "),
        ({"task": "hrad", **info("math", "1")}, "no scorer for task 'hrad'; did you mean"),
        ({"task": 3, **info("math", "1")}, "task must be a name, got 3"),
    ],
)
def test_a_row_that_no_task_of_the_run_takes_is_refused(row: Mapping[str, Any], message: str) -> None:
    refused(row, message, TASKS)


def test_a_value_that_python_can_not_write_is_shown_by_its_type() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert shown(nested) == "list too large to be shown"
    assert shown(10**5_000) == "int too large to be shown"
    assert shown("a" * 200) == f"'{'a' * 119}..."


@pytest.mark.parametrize(
    "row",
    [
        {"type": "mathematics" * 100_000},
        {"type": "math", "task": "x"},
        {"type": "swe", "answer": {"k" * 1_000_000: 1}},
        {"type": "swe", "answer": {f"k{number}": 1 for number in range(100_000)}},
        {"type": "livebench", "answer": {"value": "1", "task": "typos" * 100_000}},
    ],
    ids=["type", "task", "key", "keys", "livebench"],
)
def test_what_is_said_of_a_huge_name_is_short_and_soon_said(row: dict[str, Any]) -> None:
    started = time.process_time()
    with pytest.raises(BadMessage) as found:
        route({"verification_info": row, "task": "y" * 1_000_000 if "task" in row else None}, {})
    assert len(str(found.value)) < 6000
    assert time.process_time() - started < 2.0, "the nearest known name of a million characters takes minutes"


def test_a_missing_task_is_named_with_the_scorer_that_it_wants() -> None:
    tasks = {"swe": TaskConfig(scorer=SweConfig())}
    refused(verl("apps", json.dumps(CASES)), r"add scorers\.tasks\.code\.scorer\.type=code$", tasks)


@pytest.mark.parametrize(
    ("row_type", "answer", "key"),
    [
        ("math", {"value": "5", "unit": "cm"}, "unit"),
        ("gsm8k", {"value": "5", "tolerance": 0.1}, "tolerance"),
        ("prime_math", {"value": "5", "alternatives": ["five"]}, "alternatives"),
        ("choice", {"value": "A", "choices": ["x", "y"]}, "choices"),
        ("finqa", {"value": 5, "scale": "million"}, "scale"),
        ("qa_em", {"value": ["a"], "target": ["b"]}, "target"),
        ("zebra", {"value": {"header": ["a"], "rows": [["1"]]}, "partial": True}, "partial"),
        ("codeio", {"value": '"output": 1', "checker": "x"}, "checker"),
        ("grade", {"value": 0.5, "max": 10}, "max"),
        ("judge", {"value": "x", "rubric": "y"}, "rubric"),
        ("tinyv", {"value": "x", "criteria": "y"}, "criteria"),
        ("livebench", {"value": "yes", "task": "web_of_lies_v2", "turns": 2}, "turns"),
        ("ifeval", {"instruction_id_list": ["a"], "kwargs": [{}], "strict": False}, "strict"),
        ("reasoning_gym", {"dataset": "x", "entry": {}, "config": {"a": 1}}, "config"),
        ("swe", EDIT | {"tests": "x"}, "tests"),
    ],
)
def test_a_key_that_nothing_reads_is_refused_by_name(row_type: str, answer: dict[str, Any], key: str) -> None:
    refused(info(row_type, answer), f"'{key}'.*which the scorer does not read")
    empty: tuple[Any, ...] = (None, "", [], {})
    for nothing in empty:  # as in a column of objects, where other rows have the key
        route(info(row_type, {**answer, key: nothing}))


@pytest.mark.parametrize(
    "key", ["id", "explanation", "solution", "difficulty", "metadata", "question", "source"]
)
def test_a_remark_is_no_such_key(key: str) -> None:
    assert route(info("math", {"value": "5", key: "x"}))[0] == "math"


def test_a_scorer_of_ones_own_beside_another_may_read_any_key() -> None:
    own = {"scorer": {"type": "custom", "import_path": "my:Unit"}, "weight": 0.5}
    task = TaskConfig.model_validate({"scorer": {"type": "math"}, "extra_scorers": {"unit": own}})
    assert route(info("math", {"value": "5", "unit": "cm"}), {"math": task})[1]["answer"] == {
        "value": "5",
        "unit": "cm",
    }


@pytest.mark.parametrize(
    ("source", "types", "row_type"),
    [
        ("math", {"math": "prime_math"}, "prime_math"),
        ("math", {"math*": "gsm8k", "math": "prime_math"}, "gsm8k"),
        ("math_dapo", {"math": "prime_math"}, "prime_math"),
        ("my/own-set", {"my/*": "math"}, "math"),
        ("openai/gsm8k", {"*": "math"}, "math"),
        ("math__x", {"math__*": "math"}, "math"),
        ("simulation__unheard", {"simulation__*": "math"}, "math"),
        ("my_tinyv", {"*_tinyv": "prime_math"}, "prime_math"),
        ("judged", {"judged": "llm_judge"}, "llm_judge"),
    ],
)
def test_a_configuration_says_what_a_data_source_is(
    source: str, types: dict[str, str], row_type: str
) -> None:
    assert route(verl(source, "5"), source_types=types)[1]["type"] == row_type


def test_a_type_that_is_none_is_refused_with_its_key() -> None:
    refusal = r"data\.source_types\.math=prime_maths is no type.*did you mean prime_math"
    with pytest.raises(BadMessage, match=refusal):
        route(verl("math", "5"), source_types={"math": "prime_maths"})


@pytest.mark.parametrize(
    ("source", "truth", "value"),
    [
        ("MATH", ["2"], "2"),
        ("MATH", '["2"]', "2"),  # as JSON's text
        ("MATH", "['\\\\frac{1}{2}']", "\\frac{1}{2}"),  # as Python's
        ("openai/gsm8k", [72], "72"),
        ("MATH", "[2, 3]", "[2, 3]"),  # an interval
        ("MATH", "[2]", "[2]"),
        ("searchR1_nq", ["Rome", "Roma"], ["Rome", "Roma"]),
        ("searchR1_nq", '["Rome", "Roma"]', ["Rome", "Roma"]),
        ("searchR1_nq", "['Rome']", ["Rome"]),
        ("searchR1_nq", "[sic]", ["[sic]"]),
        ("table__hitab", ["1", "2"], ["1", "2"]),
        ("table__finqa", "yes", "yes"),
    ],
)
def test_a_list_as_ground_truth_is_read(source: str, truth: Any, value: Any) -> None:
    assert route(verl(source, truth))[1]["answer"]["value"] == value


@pytest.mark.parametrize("truth", [["1", "2"], '["1", "2"]', "['1', '2']", [], [[]], [None], [["1", "2"]]])
def test_a_list_that_no_answer_could_be_is_refused(truth: Any) -> None:
    for source in ("MATH", "openai/gsm8k", "lighteval/MATH", "math_dapo"):
        refused(verl(source, truth), "no answer")


@pytest.mark.parametrize(
    "row",
    [
        # as pandas writes objects into CSV
        {"verification_info": "{'type': 'math', 'answer': {'value': '5'}}"},
        {"verification_info": "{'type': 'math', 'answer': {'value': '5', 'unit': None}}"},
        {"data_source": "x_mathverify", "reward_model": "{'style': 'rule', 'ground_truth': '5'}"},
        {"data_source": "x_mathverify", "reward_model": {"ground_truth": "5"}, "extra_info": "{'index': 0}"},
    ],
)
def test_an_object_that_python_has_written_is_read(row: dict[str, Any]) -> None:
    assert route(row)[1] == {"type": "math", "answer": {"value": "5"}}


@pytest.mark.parametrize(
    "text", ["{'type': open('x')}", "{'a': array([1])}", "{'a': 1", "__import__('os')", "{1}"]
)
def test_a_text_that_is_no_literal_is_no_object(text: str) -> None:
    refused({"verification_info": text}, "verification_info is not JSON")


def test_keys_that_only_other_rows_extra_info_has_say_nothing() -> None:
    """In a column of objects every row has the keys of all."""
    entry = json.dumps({"question": "?", "answer": "5", "metadata": {"source_dataset": "basic_arithmetic"}})
    nulls = dict.fromkeys(["task", "entry", "prompt", "question", "criteria", "reward_metric", "prefix"])
    bare, full = verl("reasoning_gym/x", entry), verl("reasoning_gym/x", entry, **nulls)
    assert route(full) == route(bare)
    assert route(full)[1]["answer"]["dataset"] == "basic_arithmetic"
