"""Several scorers for one task, and what is taken off a reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from broker.errors import BadMessage, Retryable
from broker.messages import Completion, FinishReason, SampledGroup, Score, Span
from config.rewards import FormatConfig, LengthConfig, OverlongConfig, PenaltiesConfig, RepetitionConfig
from config.scorer_kinds import CustomConfig, MathConfig, SweConfig
from config.scorers import PartConfig, ScorersConfig, TaskConfig
from scorers.child.row_worker import RowScorer
from scorers.custom import SimpleScorer
from scorers.group import GroupScorer
from scorers.reward.combine import combine_scores, reward, reward_of
from scorers.reward.penalties import Penalty, penalties_of, repeated_span
from tests.support.growth import is_linear
from tests.support.scores import a_score

ROW = {"type": "math", "answer": {"value": "5"}}
ANY = CustomConfig(import_path="style:Style")
HALVES = TaskConfig(
    extra_scorers={"style": PartConfig(scorer=ANY, weight=0.25), "tone": PartConfig(scorer=ANY, weight=0.25)}
)
GATED = TaskConfig(extra_scorers={"safe": PartConfig(scorer=ANY, gate=0.5)})
BOTH = TaskConfig(extra_scorers={"style": PartConfig(scorer=ANY, weight=0.5, gate=0.5)})
SHOWN = TaskConfig(extra_scorers={"style": PartConfig(scorer=ANY)})


def sized(text: str, tokens: int, finish: FinishReason = FinishReason.STOP) -> Completion:
    return Completion.of_one_segment(
        token_ids=np.full(tokens, 7, np.int32),
        logprobs=np.full(tokens, -0.5, np.float32),
        text=text,
        policy_spans=(Span(version=0, first=0, count=tokens),),
        finish_reason=finish,
    )


def test_parts_have_their_weights_and_their_gates(subtests: pytest.Subtests) -> None:
    cases: list[tuple[TaskConfig, float, Mapping[str, float], float]] = [
        (TaskConfig(), 1.0, {}, 1.0),
        (HALVES, 1.0, {"style": 0.0, "tone": 0.0}, 0.5),
        (HALVES, 0.0, {"style": 1.0, "tone": 1.0}, 0.5),
        (HALVES, 1.0, {"style": 1.0, "tone": 0.5}, 0.875),
        (HALVES, 1.0, {"style": 1.0, "tone": 1.0}, 1.0),
        (GATED, 1.0, {"safe": 0.5}, 1.0),
        (GATED, 1.0, {"safe": 0.49}, 0.0),
        (GATED, 0.3, {"safe": 1.0}, 0.3),
        (BOTH, 1.0, {"style": 0.6}, 0.8),
        (BOTH, 1.0, {"style": 0.4}, 0.0),
        (SHOWN, 1.0, {"style": 0.0}, 1.0),
    ]
    for task, own, extra, value in cases:
        with subtests.test(own=own, extra=extra, value=value):
            parts = {name: a_score(part, seconds=0.5) for name, part in extra.items()}
            found = combine_scores(task, a_score(own, seconds=0.5), parts)
            assert found.value == pytest.approx(value)
            assert found.components == {"math": own, **extra}
            assert found.seconds == 0.5 * (1 + len(extra))


def test_the_reason_names_the_parts_that_count_and_the_version_all_of_them() -> None:
    task = TaskConfig(
        extra_scorers=HALVES.extra_scorers | GATED.extra_scorers | {"seen": PartConfig(scorer=ANY)}
    )
    extra = {
        name: replace(a_score(0.25, f"{name} is poor", components={"edit": 1.0}), version="7")
        for name in task.extra_scorers
    }
    found = combine_scores(task, a_score(1.0, "equal"), extra)
    assert found.reason == (
        "equal; style 0.25: style is poor; tone 0.25: tone is poor; "
        "safe 0.25 is below its gate of 0.5: safe is poor"
    )
    assert found.version == "1; style 7; tone 7; safe 7; seen 7"
    assert found.components == (
        {"math": 1.0} | dict.fromkeys(extra, 0.25) | {f"{name}.edit": 1.0 for name in extra}
    )
    fine = combine_scores(GATED, a_score(1.0, "equal"), {"safe": a_score(1.0)})
    assert fine.reason == "equal"


def test_where_a_part_that_counts_is_unscorable_the_whole_is(subtests: pytest.Subtests) -> None:
    cases: list[tuple[TaskConfig, str, bool]] = [
        (HALVES, "tone", True),
        (GATED, "safe", True),
        (SHOWN, "style", False),
    ]
    for task, name, counts in cases:
        with subtests.test(name):
            extra = {other: a_score(1.0) for other in task.extra_scorers} | {
                name: a_score(None, "the judge is away")
            }
            found = combine_scores(task, a_score(1.0), extra)
            assert (found.value is None) == counts
            assert (found.reason == f"{name}: the judge is away") == counts
            assert reward(task, found, None, [])[1] == (None if counts else 1.0)
            assert combine_scores(task, a_score(None, "broken"), extra).reason == "broken"


def parts(**options: dict[str, Any]) -> dict[str, Any]:
    return {"extra_scorers": {name: {"scorer": {"type": "math"}, **given} for name, given in options.items()}}


def test_a_task_that_can_not_be_meant_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (parts(a={"weight": 0.6}, b={"weight": 0.4}), "leave nothing for the scorer itself"),
        *((parts(**{name: {}}), f"{name} is taken") for name in ("math", "rule", "failed_tries", "overlong")),
        (parts(a={"weight": -0.1}), "weight"),
        (parts(a={"gate": 0}), "gate"),
        ({"penalties": {"overlong": {"buffer_tokens": 9, "max_tokens": 8}}}, "longer than max_tokens"),
        ({"penalties": {"overlong": {}}}, "buffer_tokens"),
        ({"penalties": {"length": {"weight": math.inf}}}, "finite"),
        ({"format": {"weight": 0.5}}, "a gate has none"),
        ({"format": {"min_think": 9}}, "needs `think: required`"),
        ({"penalties": {"repetition": {"weight": math.nan}}}, "finite"),
        ({"penalties": {"repetition": {"span_chars": 3}}}, "span_chars"),
    ]
    for section, message in cases:
        with subtests.test(message, section=section), pytest.raises(ValidationError, match=message):
            TaskConfig.model_validate(section)


def amounts(config: PenaltiesConfig, *tokens: int) -> list[float]:
    return [penalties_of(config, sized("x", count), allowed_tokens=100)[0].amount for count in tokens]


def test_the_overlong_penalty_is_dapos(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int | None, float]] = [
        (1, None, 0.0), (80, None, 0.0), (81, None, 0.05), (90, None, 0.5), (100, None, 1.0),
        (130, None, 1.0), (40, 50, 0.5), (50, 50, 1.0), (80, 50, 1.0),
    ]  # fmt: skip
    for tokens, most, amount in cases:
        with subtests.test(tokens=tokens, most=most):
            config = PenaltiesConfig(overlong=OverlongConfig(buffer_tokens=20, max_tokens=most))
            (found,) = penalties_of(config, sized("x", tokens), allowed_tokens=100)
            assert found.name == "overlong"
            assert found.amount == pytest.approx(amount)
            assert (found.reason == "") == (amount == 0)


def test_a_prompt_that_leaves_less_room_than_the_buffer_fines_no_short_answer() -> None:
    config = PenaltiesConfig(overlong=OverlongConfig(buffer_tokens=512))
    assert amounts(config, 1, 50, 100) == pytest.approx([0.01, 0.5, 1.0])


def test_the_price_of_length_is_in_proportion_and_has_an_end() -> None:
    config = PenaltiesConfig(length=LengthConfig(weight=0.2))
    assert amounts(config, 50, 100, 200) == pytest.approx([0.1, 0.2, 0.2])


SPAN = "".join(chr(0x4E00 + number) for number in range(40))


def test_a_span_that_comes_again_is_found_where_it_begins(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, int | None]] = [
        (SPAN, None), (SPAN * 2, 40), (f"{SPAN} and {SPAN}", 45), (f"a{SPAN}b{SPAN[:39]}", None),
        (f"{SPAN[1:]}{SPAN}", None), ("=" * 79, None), ("=" * 80, 40), ("ab" * 40, 40), ("abc" * 26, None),
        ("abc" * 28, 42),
        ("", None),
    ]  # fmt: skip
    for text, place in cases:
        with subtests.test(text=text):
            assert repeated_span(text, 40) == place


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("chars", [100_000, 300_000])
def test_repetition_costs_its_weight_and_takes_no_long_search(chars: int) -> None:
    config = PenaltiesConfig(repetition=RepetitionConfig())
    said = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(20_000))
    (free,), (paid,) = (penalties_of(config, sized(text, 9), 9) for text in (said, said + said[:300]))
    assert (free.amount, paid.amount) == (0.0, 1.0)
    assert "the 300 characters from 20001 on" in paid.reason
    long = "".join(map(str, range(70_000)))
    assert repeated_span(long[:300_000], 300) is None
    assert is_linear(lambda text: repeated_span(text, 300), lambda count: long[:count], chars)


def test_a_reward_may_be_negative_and_its_score_is_not() -> None:
    task = TaskConfig(format=FormatConfig(mode="penalty", weight=0.5))
    content = combine_scores(task, a_score(0.0, "wrong"), {})
    penalties = [Penalty("overlong", 0.25, "90 tokens of 100"), Penalty("repetition", 0.0, "")]
    score, paid = reward(task, content, a_score(0.0, "no box"), penalties)
    assert (score.value, paid) == (0.0, -0.75)
    assert score.reason == "wrong; format: no box; overlong -0.25: 90 tokens of 100"
    assert score.components == {"math": 0.0, "format": 0.0, "overlong": -0.25, "repetition": 0.0}


@pytest.mark.parametrize(("shape", "paid"), [(1.0, 0.8), (0.0, 0.3)])
def test_a_format_may_be_a_penalty(shape: float, paid: float) -> None:
    task = TaskConfig(format=FormatConfig(mode="penalty", weight=0.5))
    assert reward(task, a_score(0.8), a_score(shape), [])[1] == pytest.approx(paid)


def test_penalties_come_off_swe_rls_minus_one_and_off_what_a_gate_has_left() -> None:
    swe, gated = TaskConfig(scorer=SweConfig(format_penalty=True)), TaskConfig(format=FormatConfig())
    length = [Penalty("length", 0.1, "x")]
    assert reward(swe, a_score(0.0, components={"edit": 0.0}), None, length)[1] == pytest.approx(-1.1)
    assert reward(gated, a_score(1.0), a_score(0.0), length)[1] == -0.1


def test_pay_sees_the_tokens_and_the_end_of_a_completion(subtests: pytest.Subtests) -> None:
    task = TaskConfig(
        format=FormatConfig(), penalties=PenaltiesConfig(overlong=OverlongConfig(buffer_tokens=20))
    )
    content = combine_scores(task, a_score(1.0), {})
    for completion, paid in (
        (sized("\\boxed{5}", 10), 1.0), (sized("\\boxed{5}", 90), 0.5), (sized("5", 10), 0.0),
        (sized("\\boxed{5}", 100, FinishReason.LENGTH), -1.0),
    ):  # fmt: skip
        with subtests.test(text=completion.text, paid=paid):
            assert reward_of(task, content, completion, ROW, 100)[1] == paid


class Style(SimpleScorer):
    """Likes short answers; its machinery is away for the word `away`, and it wants a row with `style`."""

    name, version = "style", "3"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        if "style" not in verification_info:
            raise BadMessage("a row without a style")

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        if "away" in text:
            raise Retryable("the judge of style is away")
        return self.scored(1.0 if len(text) < 20 else 0.0, "short" if len(text) < 20 else "long")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> ScorersConfig:
    """Return a task with a part and a penalty, whose part is the scorer above."""
    monkeypatch.setitem(__import__("sys").modules, "style", type("Module", (), {"Style": Style}))
    return ScorersConfig(
        retries=0,
        tasks={
            "math": TaskConfig(
                scorer=MathConfig(deadline_s=5.0),
                extra_scorers={"style": PartConfig(scorer=ANY, weight=0.25)},
                penalties=PenaltiesConfig(overlong=OverlongConfig(buffer_tokens=8)),
            )
        },
    )


def test_a_group_is_scored_by_all_and_equal_texts_are_paid_by_their_own_tokens(
    config: ScorersConfig, group: Callable[..., SampledGroup]
) -> None:
    info = {"type": "gsm8k", "answer": {"value": "5"}, "style": "terse"}  # of numbers: no child process
    rollout = group(*"abcde", verification_info=info)
    texts = ("#### 5", "#### 5", "2 + 3 is what is asked.\n#### 5", "#### 6", "away\n#### 5")
    rollout = replace(
        rollout,
        completions=tuple(sized(text, tokens) for text, tokens in zip(texts, (1, 12, 1, 1, 1), strict=True)),
    )
    scorer = GroupScorer(config)
    try:
        scored_group = scorer.score(rollout, worker="w")
        assert scored_group.rewards == (1.0, 0.5, 0.75, 0.25, None)
        assert [score.value for score in scored_group.scores] == [1.0, 1.0, 0.75, 0.25, None]
        assert scored_group.scores[1].components == {"math": 1.0, "style": 1.0, "overlong": -0.5}
        assert "style: not scored in 1 try" in scored_group.scores[4].reason
        with pytest.raises(BadMessage, match="a row without a style"):
            scorer.score(group("\\boxed{5}"), worker="w")
    finally:
        scorer.close()


def test_a_row_without_a_run_is_scored_by_all_too(config: ScorersConfig) -> None:
    scorer = RowScorer(config)
    try:
        line = b'{"llm_output": "#### 6", "verification_info": {"type": "gsm8k", "answer": "5", "style": 1}}'
        result = scorer.result(line)
        assert (result["value"], result["components"]) == (0.25, {"math": 0.0, "style": 1.0})
    finally:
        scorer.close()
