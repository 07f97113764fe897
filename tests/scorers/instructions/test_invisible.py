"""What has no width changes no verdict: each case with invisible characters in it is judged as its reader sees it."""

from __future__ import annotations

from typing import Any

import pytest

from config.scorer_kinds import InstructionsConfig
from config.scorers import ScorersConfig
from scorers.instructions.catalogue import checks_of
from scorers.instructions.scorer import InstructionFollowing
from scorers.text.invisible import seen
from tests.scorers.instructions.corpus import CASES, PROMPT

INVISIBLE = {
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "zero-width non-joiner": "\u200c",
    "word joiner": "\u2060",
    "soft hyphen": "\u00ad",
    "byte order mark": "\ufeff",
    "variation selector": "\ufe0f",
    "ideographic variation selector": "\U000e0101",
    "right-to-left override": "\u202e",
    "isolate": "\u2066\u2069",
    "Arabic letter mark": "\u061c",
    "grapheme joiner": "\u034f",
    "Hangul filler": "\u3164",
    "half-width Hangul filler": "\uffa0",
    "tag": "\U000e0041",
    "control": "\x08",
    "stroke that combines": "\u0336",
    "accents upon accents": "\u0316\u0317\u0318",
    "enclosing circle": "\u20dd",
}
HINDI = "\u0939\u093f\u0928\u094d\u0926\u0940"
# (instruction, arguments, a response whose characters without width made it right)
ATTACKS: list[tuple[str, dict[str, Any] | None, str]] = [
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "o\u200bn\u200be"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "b\u0300b\u0300b\u0300b"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "one \u3164 \u3164"),
    ("length_constraints:number_words", {"num_words": 2, "relation": "less than"}, "one\u2800two\u2800three"),
    ("letters:letter_counting", {"N": 9, "relation": "at least"}, "one" + "\u3164" * 9),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "A c\u200bat."),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "A c\u00adat."),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "A c\u0336a\u0336t\u0336."),
    ("keywords:exclude_word_harder", {"keyword": "cat"}, "A ca\ufe0ft."),
    ("keywords:frequency", {"keyword": "cat", "frequency": 1, "relation": "less than"}, "c\u2060at"),
    ("keywords:word_once", {"keyword": "cat"}, "cat c\u200dat"),
    ("count:count_unique", {}, "The cat saw th\u200be dog."),
    ("combination:two_responses", {}, "Same.\n******\nSa\u200bme."),
    ("combination:two_responses", {}, "One.\n******\n\u3164"),
    ("combination:repeat_prompt", {"prompt_to_repeat": PROMPT}, f"{PROMPT}\n\u3164"),
    ("detectable_format:title", {}, "<<\u3164>> text"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* one\n* \u3164"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*\u3164*"),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[\u115f]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Text.\nP.S. \u3164"),
    ("startend:end_checker", {"end_phrase": "Is it?"}, "\u3164 Is it?"),
    ("startend:quotation", {}, '"\u3164"'),
    ("paragraphs:paragraphs2", None, "one\n\n\u3164"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n***\n\u3164"),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "One. \u3164."),
    ("punctuation:no_comma", {}, "Hello\ufe10 world"),
    ("punctuation:no_comma", {}, "Hello\ufe50 world"),
    ("punctuation:no_comma", {}, "Hello\uff64 world"),
    ("punctuation:punctuation_dot", None, "Hello world\u2024"),
    ("punctuation:punctuation_exclamation", None, "Hello\ufe57"),
]


@pytest.mark.prove(after=3)
@pytest.mark.parametrize("name", INVISIBLE)
def test_every_case_is_judged_the_same_with_invisible_characters_in_it(name: str) -> None:
    mark = INVISIBLE[name]
    failed = []
    for instruction, case in CASES.items():
        (check,) = checks_of([instruction], [case.kwargs]).values()
        for text in (*case.right[:2], *case.wrong[:2]):
            hides = ("".join(char + mark for char in text), f"{text}{mark}", text.replace(" ", f" {mark}"))
            failed += [
                (instruction, hidden, check(hidden)) for hidden in hides if check(hidden) != check(text)
            ]
    assert not failed


def test_what_nobody_sees_makes_nothing_right() -> None:
    for instruction, kwargs, text in ATTACKS:
        (check,) = checks_of([instruction], [kwargs]).values()
        assert check(text) is not None, (instruction, text)


def test_what_nobody_sees_makes_nothing_wrong() -> None:
    for instruction, kwargs, text in (
        ("detectable_format:json_format", {}, '\ufeff{"a": 1}'),
        ("startend:quotation", {}, '\ufeff"It is done."\u200b'),
        ("keywords:existence", {"keywords": ["category"]}, "a cate\u00adgory"),
        ("keywords:existence", {"keywords": ["caf\u00e9"]}, "a cafe\u0301"),
        ("keywords:existence", {"keywords": ["cafe\u0301"]}, "a caf\u00e9"),
        ("startend:end_checker", {"end_phrase": "Is it?"}, "So. Is it?\u200b"),
        ("length_constraints:number_words", {"num_words": 2, "relation": "less than"}, "cafe\u0301s"),
        ("length_constraints:number_words", {"num_words": 2, "relation": "less than"}, HINDI),
        ("paragraphs:paragraphs2", None, "one\n\u200b\ntwo"),
        ("first_word:first_word_answer", {"first_word": "yes"}, "\u200eYes it is"),
    ):
        (check,) = checks_of([instruction], [kwargs]).values()
        assert check(text) is None, (instruction, text, check(text))


def test_the_prompt_again_is_no_response_with_invisible_characters_either() -> None:
    scorer = InstructionFollowing(InstructionsConfig(), ScorersConfig())
    answer = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "prompt": PROMPT}
    for mark in INVISIBLE.values():
        assert (
            scorer.score(PROMPT.replace("a", f"a{mark}"), {"type": "ifeval", "answer": answer}).value == 0.0
        )
        assert scorer.score(mark * 9, {"type": "ifeval", "answer": answer}).value == 0.0


def test_what_is_seen_stays() -> None:
    for text in ("caf\u00e9", HINDI, "\u4e2d\u6587", "a\tb\r\nc", "\U0001f600", "\u00bd \u2009 \u00a0"):
        assert seen(text) == text
    assert seen("cafe\u0301") == "caf\u00e9"
