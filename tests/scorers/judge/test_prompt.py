"""What a judge is asked has one structure, whatever stands in an answer; and an empty answer is never asked about."""

from __future__ import annotations

import re

import pytest

from scorers.judge.prompt import PROMPTS, JudgeCase, Variant, messages_of
from scorers.served_model.marks import enclosed
from scorers.text.contentless import is_contentless
from scorers.text.extract import END_MARKS
from tests.scorers.judge.injections import CONTENTLESS, INJECTIONS, WITH_CONTENT
from tests.support.growth import is_linear
from tests.support.text_tables import listed

VARIANTS: tuple[Variant, ...] = ("default", "stem", "math", "tinyv")


def prompt_of(case: JudgeCase) -> str:
    (message,) = messages_of(case)
    assert message["role"] == "user"
    return message["content"]


def texts_of(prompt: str, nonce: str) -> list[str]:
    return re.findall(rf"^\[begin {nonce}\]\n(.*?)\n\[end {nonce}\]$", prompt, re.MULTILINE | re.DOTALL)


def frame_of(case: JudgeCase) -> str:
    prompt = prompt_of(case)
    for text in texts_of(prompt, case.nonce):
        prompt = prompt.replace(f"]\n{text}\n[", "]\n[", 1)
    return prompt.replace(case.nonce, "NONCE")


def spaced(text: str) -> str:
    return re.sub(r"\s", "", text)


def test_no_answer_changes_the_structure_of_the_prompt() -> None:
    for variant in VARIANTS:
        plain = frame_of(JudgeCase("6 x 12?", "72", "7", variant))
        for injection in INJECTIONS:
            case = JudgeCase("6 x 12?", "72", f"7\n{injection}", variant)
            texts = texts_of(prompt_of(case), case.nonce)
            assert sorted(map(spaced, texts)) == sorted(map(spaced, ("6 x 12?", "72", case.answer))), (
                injection
            )
            assert frame_of(case) == plain, injection
            assert case.answer not in prompt_of(case).splitlines()[-1], injection


def test_a_row_without_a_question_is_judged_without_one(subtests: pytest.Subtests) -> None:
    for variant in VARIANTS:
        with subtests.test(variant=variant):
            case = JudgeCase(None, "72", "7", variant)
            assert len(texts_of(prompt_of(case), case.nonce)) == 2
            assert "None" not in prompt_of(case)
            assert "question:" not in prompt_of(case).lower()


def test_the_nonce_is_the_same_everywhere_and_stands_in_no_answer() -> None:
    case = JudgeCase("6 x 12?", "72", "7")
    assert case.nonce == JudgeCase("6 x 12?", "72", "7").nonce == "57535c6f1864"
    others = [
        JudgeCase("6 x 13?", "72", "7"),
        JudgeCase("6 x 12?", "73", "7"),
        JudgeCase("6 x 12?", "72", "8"),
        JudgeCase("6 x 12?", "72", "7", "stem"),
        JudgeCase(None, "72", "7"),
    ]
    assert len({case.nonce, *(other.nonce for other in others)}) == 1 + len(others)
    assert (
        case.key == f'[{PROMPTS}, "default", "6 x 12?", "72", "7"]'
    )  # what a cache knows it by: without a nonce
    for text in (case.nonce, case.nonce.upper(), f"[end {case.nonce}]"):
        guessing = JudgeCase("6 x 12?", "72", f"7 {text}")
        assert guessing.nonce not in guessing.answer.lower()


def test_an_answer_that_had_its_own_nonce_would_get_another(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["aaaaaaaaaaaa", "BBBBBBBBBBBB", "cccccccccccc"])

    class Digest:
        def hexdigest(self) -> str:
            return next(digests)

    monkeypatch.setattr("scorers.served_model.marks.hashlib.blake2b", lambda _: Digest())
    assert JudgeCase("?", "72", "aaaaaaaaaaaa BBBBBBBBBBBB").nonce == "BBBBBBBBBBBB"


def test_no_special_token_reaches_the_judges_tokenizer(subtests: pytest.Subtests) -> None:
    for mark in [
        *listed(r"""
<|im_start|>¦<|start_header_id|>¦<\uff5cAssistant\uff5c>¦<s>¦[INST]¦[/INST]¦[TOOL_CALLS]¦<<SYS>>
[|endofturn|]¦[THINK]¦[gMASK]¦<sop>¦<seed:eos>¦<reserved_106>¦<start_of_turn>¦<bos>¦<think>¦</think>
<tool_call>¦<|turn>
"""),
        *END_MARKS,
    ]:
        with subtests.test(mark=mark):
            for text in (mark, f"a{mark}b", mark * 3, f"<{mark}>", f"[{mark}]", f"<|{mark}|>"):
                said = enclosed(text, "0" * 12)
                assert mark not in said
                assert spaced(text) in spaced(said)


def test_what_is_no_special_token_stays_as_it_is(subtests: pytest.Subtests) -> None:
    for text in ["a < b |> c <| d", "x<y>z", "[1, 2]", "s>t", "<div class='s'>", "<\n|a|>"]:
        with subtests.test(text=text):
            assert enclosed(text, "0" * 12).splitlines()[1:-1] == text.splitlines()


@pytest.mark.parametrize("piece", ["<|", "<|a", "<", "[", "|>"])
def test_no_text_takes_long_to_enclose(piece: str) -> None:
    assert is_linear(
        lambda text: prompt_of(JudgeCase("?", "72", text)), lambda count: piece * count, 100_000 // len(piece)
    )


def test_an_answer_without_content_is_known_as_one_and_no_other_is() -> None:
    assert [text for text in CONTENTLESS if not is_contentless(text)] == []
    assert [text for text in WITH_CONTENT if is_contentless(text)] == []
    assert is_contentless(":" * 100_000)
    assert not is_contentless("Solution " * 10_000)  # a judge may see it
