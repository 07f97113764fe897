"""Several tries with a verdict between them: programs by their public tests, answers by reasoning-gym's own scorer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agents.environments.child.tries import Code, NoVerdict
from agents.environments.seam import Beginning, EnvironmentFailed, EnvironmentStep
from config.episodes.environments import CodeTriesConfig, GymTriesConfig
from config.scorers import ScorersConfig, TaskConfig
from sandbox.choice import LazySandbox, best_local
from sandbox.program import SandboxMissing, SandboxUnavailable
from tests.support.paths import DATA
from tests.support.played import ASKED, Played, played, said
from tests.support.sandbox import fusion_fakes as fake
from tests.support.sandbox.fusion_fakes import fake_servers
from tests.support.sandbox.unable import Unable
from tests.verdicts.gym.asking import needs_library
from tests.verdicts.gym.corpus import gym

pytestmark = pytest.mark.process

HIDDEN = "987654321987"  # long enough that no address and no number of seconds is it
SQUARED = str(int(HIDDEN) ** 2)
ROW = {
    "type": "code",
    "answer": {"inputs": ["2\n", "3\n", f"{HIDDEN}\n"], "outputs": ["4\n", "9\n", f"{SQUARED}\n"]},
}
CALLS = {
    "type": "code",
    "answer": {"tests": ["assert sq(2) == 4", "assert sq(3) == 9", f"assert sq({HIDDEN}) == {SQUARED}"]},
}


@pytest.fixture(scope="module", autouse=True)
def _walls() -> None:
    try:
        best_local().close()
    except SandboxMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    with played({"code": {"type": "code", "public": 2, "discount": 0.5, "shown_characters": 80}}) as made:
        yield made


def whole(
    play: Played, task: str, row: Mapping[str, Any], *said_so: str, seed: int = 17
) -> tuple[Beginning, list[EnvironmentStep]]:
    """Play an episode to its end, or as far as there is something to say."""

    async def run() -> tuple[Beginning, list[EnvironmentStep]]:
        episode, beginning = await play.begin(task, row, seed=seed)
        try:
            return beginning, [await episode.step(said(text)) for text in said_so]
        finally:
            await episode.close()

    return play.wait(run())


def block(program: str) -> str:
    return f"<think>hm</think>So:\n```python\n{program}\n```"


def told(steps: list[EnvironmentStep]) -> list[str]:
    return [message["content"] for step in steps for message in step.messages]


def test_a_program_is_mended_by_what_its_public_tests_say(play: Played) -> None:
    beginning, steps = whole(
        play,
        "code",
        ROW,
        block("print(int(input()) * 2)"),
        block("raise ValueError(input())"),
        block("print(int(input()) ** 2)"),
    )
    assert beginning.messages == (ASKED,), "the row's prompt, and nothing else"
    first, second = told(steps)
    assert first == (
        "1 of 2 public tests passed.\n\nTest 2 failed.\nInput:\n3\nExpected:\n9\nGot:\n6\nexpected '9', got '6'\n\n"
        "You have 2 more tries."
    )
    assert second.startswith(
        "0 of 2 public tests passed.\n\nTest 1 failed.\nInput:\n2\nExpected:\n4\nexit code 1"
    )
    assert 'File "main.py", line 1' in second or "more characters]" in second
    assert second.endswith("ValueError: 3\n\nYou have 1 more try.")
    assert [(step.reward, step.terminated) for step in steps] == [(0.0, False), (0.0, False), (0.25, True)]


def test_what_is_hidden_never_gets_to_the_policy(play: Played) -> None:
    spies = [
        "import os, sys\nprint(open(__file__).read(), os.listdir('/'), sys.stdin.read())",
        "import gc, sys\ndef sq(x):\n    f = sys._getframe()\n    while f: print(f.f_locals); f = f.f_back\n    raise ValueError(repr(gc.get_objects())[-4000:])",
        "no program",
    ]
    for row in (ROW, CALLS):
        beginning, steps = whole(play, "code", row, *(block(spy) for spy in spies))
        assert HIDDEN not in repr((beginning, steps))
        assert SQUARED not in repr((beginning, steps))
        assert len(told(steps)) == 2
        assert [step.terminated for step in steps] == [False, False, True]


@pytest.mark.prove
def test_a_text_without_a_program_costs_a_try_and_a_hang_no_more_than_its_time() -> None:
    section = {"type": "code", "public": 1, "program_deadline_s": 2.0, "case_timeout_s": 0.5, "tries": 3}
    with played({"code": section}) as play:
        _, (none, hung, last) = whole(
            play,
            "code",
            CALLS,
            "It is sq.",
            block("def sq(x):\n    while x: pass"),
            block("def sq(x): return 4"),
        )
    assert "no closed code block after the thinking. Write the whole program" in none.messages[0]["content"]
    assert "Check:\nassert sq(2) == 4\nexceeded its limit: 0.5 s of time" in hung.messages[0]["content"]
    assert (last.reward, last.terminated, last.messages) == (1.0, True, ()), "right by what is public"


def test_a_row_that_shows_no_test_is_no_policy_s_doing(play: Played) -> None:
    with pytest.raises(EnvironmentFailed, match="one test, which stays hidden") as caught:
        whole(play, "code", {"type": "code", "answer": {"tests": ["assert f(1)"]}})
    assert (caught.value.stage, caught.value.is_policys) == ("reset", False)


def test_a_sandbox_that_is_away_is_no_verdict() -> None:
    section = {**CodeTriesConfig(public=1).model_dump(), "source": "", "walls": "auto", "sandbox_urls": ()}
    away, other = (
        Code(section, LazySandbox(ScorersConfig(), walls))
        for walls in (Unable(), Unable(languages=frozenset()))
    )
    away.reset(ROW, 1)
    with pytest.raises(SandboxUnavailable):
        away.step(block("print(4)"))
    with pytest.raises(NoVerdict, match="has no python"):
        other.reset(ROW, 1)


@pytest.mark.prove
def test_a_server_that_goes_away_costs_an_attempt_and_is_never_the_policy_s_doing() -> None:
    section = {"type": "code", "public": 1, "program_deadline_s": 2.0, "step_deadline_s": 4.0}
    with fake_servers(1) as (server,):
        server.behave = fake.honest
        with played({"code": section}, scorers={"sandbox": "fusion", "sandbox_urls": [server.url]}) as play:
            whole(play, "code", ROW, block("print(int(input()) ** 2)"))

            async def lose() -> None:
                episode, _ = await play.begin("code", ROW)
                server.behave = fake.sandbox_error
                await episode.step(said(block("print(4)")))

            with pytest.raises(EnvironmentFailed) as caught:
                play.wait(lose())
    assert (caught.value.stage, caught.value.is_policys) == ("step", False)


@pytest.mark.prove
@pytest.mark.skipif(not DATA.exists(), reason="MBPP is not beside the checkout")
def test_rows_of_mbpp_are_solved_at_the_second_try_by_their_own_solutions(play: Played) -> None:
    lines = (DATA / "mbpp.jsonl").read_text(encoding="utf-8").splitlines()[10:14]
    for record in map(json.loads, lines):
        row = {"type": "code", "answer": {"tests": record["test_list"], "setup": record["test_setup_code"]}}
        _, (wrong, right) = whole(play, "code", row, block("pass"), block(record["code"]))
        assert wrong.messages[0]["content"].startswith("0 of 2 public tests passed.")
        assert record["test_list"][2] not in wrong.messages[0]["content"]
        assert (right.reward, right.terminated) == (0.5, True)


GYM = {
    "made": {
        "type": "reasoning_gym",
        "dataset": "chain_sum",
        "options": {"min_terms": 2, "max_terms": 2},
        "tries": 2,
    },
    "boxed": {"type": "reasoning_gym", "part": "box", "discount": 0.5},
}


@needs_library
def test_an_entry_is_answered_again_until_the_library_says_that_it_is_right() -> None:
    with played({"boxed": GYM["boxed"]}) as play:
        row = gym("basic_arithmetic", "-1043")
        beginning, steps = whole(play, "boxed", row, "-1043", "\\boxed{1043}", "\\boxed{-1043}")
        assert beginning.messages == (ASKED,)
        assert told(steps) == [
            (
                "There is no answer to judge: no \\boxed{} after the thinking. Put your final answer in \\boxed{}.\n\n"
                "You have 2 more tries."
            ),
            "Your answer is not right.\n\nYou have 1 more try.",
        ]
        assert [(step.reward, step.terminated) for step in steps] == [
            (0.0, False),
            (0.0, False),
            (0.25, True),
        ]
        with pytest.raises(
            EnvironmentFailed, match="is not right"
        ) as caught:  # its own answer, by the library
            whole(play, "boxed", gym("rearc", "9 9", output=[[9, 8]]), "\\boxed{9 9}")
        assert (caught.value.stage, caught.value.is_policys) == ("step", False)


@needs_library
def test_a_problem_is_made_of_data_set_options_and_seed_and_nothing_else() -> None:
    with played({"made": GYM["made"]}) as play:
        first, again, other = (
            whole(
                play,
                "made",
                {"type": "made", "seed": seed},
                "<answer>x</answer>",
                "<answer>y</answer>",
                seed=seed,
            )
            for seed in (7, 7, 1_000_000_000)
        )
        assert first[0] == again[0] != other[0]
        prompt = first[0].messages[-1]["content"]
        assert prompt.endswith("Put your final answer between <answer> and </answer>.")
        assert [step.terminated for step in first[1]] == [False, True]

        async def reference() -> Any:
            episode, beginning = await play.environments.begin(
                "made", {}, [], seed=7, own_seed=1, token="t", wants_reference=True
            )
            step = await episode.step((beginning.reference or ())[0])
            await episode.close()
            return step

        right = play.wait(reference())
        assert (right.reward, right.terminated) == (1.0, True)


@needs_library
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dataset": "chain_sums"}, "did you mean chain_sum"),
        ({"options": {"terms": 2}}, "unexpected keyword argument 'terms'"),
    ],
)
def test_a_data_set_that_can_t_be_made_is_named(change: dict[str, Any], says: str) -> None:
    with played({"made": GYM["made"] | change}) as play:
        with pytest.raises(EnvironmentFailed, match=says) as caught:
            play.wait(play.begin("made"))
        assert caught.value.stage == "start"


@pytest.mark.parametrize(
    ("section", "scorer", "says"),
    [
        (
            {"type": "reasoning_gym", "tries": 9},
            {"type": "gym"},
            "tries=9 need as many turns, and max_turns=8",
        ),
        ({"type": "code", "program_deadline_s": 60}, {"type": "code"}, "less than step_deadline_s=60"),
        ({"type": "code", "python": "/usr/bin/python3"}, {"type": "code"}, "Millrace's own interpreter"),
        ({"type": "code", "public": 0}, {"type": "code"}, "public"),
        (
            {"type": "reasoning_gym", "part": "box"},
            {"type": "gym"},
            "`scorer.part` is answer and `environment.part` is box",
        ),
        ({"type": "code", "compatible": True}, {"type": "code"}, "both have to judge an answer alike"),
    ],
)
def test_a_section_that_cannot_work_is_refused(
    section: dict[str, Any], scorer: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        TaskConfig.model_validate({"scorer": scorer, "environment": section})


def test_only_a_section_with_a_data_set_makes_prompts() -> None:
    assert [
        GymTriesConfig(dataset="gcd").makes_prompt,
        GymTriesConfig().makes_prompt,
        CodeTriesConfig().makes_prompt,
    ] == [True, False, False]
