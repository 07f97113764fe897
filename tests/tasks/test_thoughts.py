"""Thoughts in every model's marks: what is thought, what answers, whose marks count, and where a prompt opens one."""

from __future__ import annotations

import re
from functools import partial

import pytest

from tasks import thoughts
from tasks.thoughts import TABLE, THINK, marks_of, opened_by, parted, told
from tests.support.growth import is_linear
from tests.tasks.spoken import ANALYSIS, FINAL, NEVER_IN_THE_PROMPT, PLAIN, SPOKEN


@pytest.mark.parametrize("family", SPOKEN)
def test_what_follows_the_thought_answers_and_a_thought_that_never_ended_does_not(family: str) -> None:
    opening, closing = SPOKEN[family]
    for space in ("", "\n ") if family != "gpt-oss, bare" else ("",):
        found = parted(f"{space}{opening}So, it is 3{closing}It is 5, then.")
        assert found.answer is not None
        assert found.answer.strip() == "It is 5, then."
        assert re.findall(r"\w+", found.thought or "") == ["So", "it", "is", "3"]
        assert parted(f"{space}{opening}So it is 5") == parted(f"{opening}So it is 5")
        assert parted(f"{opening}So it is 5").answer is None
    assert (parted(f"{opening}So{closing}").answer or "").strip() == ""
    assert (parted(f"{opening}So{closing}a{opening}So{closing}b").answer or "").strip() == "b"
    found = parted(f"So it is 3{closing}It is 5")
    assert ((found.answer or "").strip() == "It is 5") is (family not in NEVER_IN_THE_PROMPT)


@pytest.mark.parametrize("family", sorted(SPOKEN.keys() - {"gpt-oss, bare", "hyperclova x"}))
def test_a_thought_that_is_begun_again_is_no_answer(family: str) -> None:
    opening, closing = SPOKEN[family]
    assert parted(f"{opening}So{closing}It is 5. {opening}Wait").answer is None
    middle = f"It is 5. {opening}Wait"
    assert parted(middle).answer == (middle if family in PLAIN else None)


@pytest.mark.parametrize("family", sorted(SPOKEN.keys() - {"r1"}))
def test_in_an_answer_anothers_marks_are_text(family: str) -> None:
    opening, closing = SPOKEN[family]
    for said in (
        f"Another thinks by {opening} and {closing}.",
        f"{closing} ends it.",
        f"{opening} begins it.",
    ):
        assert parted(f"<think>\nSo</think>{said}").answer == said


TOOL = "<|end|><|start|>assistant"
OWN_WORDS = [
    "It is 5",
    "analysis of it: 5",
    "analysis\nIt is 5",
    "analyses assist ant final",
    "It is [5] < 6 | 7",
    "",
]
OWN_WORDS += [
    "the mark [THINK] and [/THINK]",
    "Use <thinking> and </thinking>.",
    "said <|im_start|>assistant\n5",
    " \n",
]
OWN_WORDS += ["<response>5</response>"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        *((text, text) for text in OWN_WORDS),
        (f"<|channel|>commentary<|message|>a<|end|>{FINAL}5", "5"),
        (f"{ANALYSIS}a{TOOL}<|channel|>commentary<|message|>b<|end|>{FINAL}5", "5"),
        (f"{ANALYSIS}a{TOOL} to=functions.f<|channel|>commentary json<|message|>{{}}", None),
        (f"{ANALYSIS}a<|end|>{FINAL}5<|end|><|start|>assistant<|channel|>analysis", None),
        (f"{ANALYSIS}a{TOOL}<|channel|>final", None),
        ("<|channel|>final<|message|>5", "5"),
        ("analysisWe add.assistantcommentary to=functions.f json{}", None),
        ('analysis"5"?assistantfinal json{"a": 5}', '{"a": 5}'),
        ("<think>a</think><response>5</response>", "5"),
        ("[THINK]a[/THINK]5<think>", None),  # recipes ask every model for this mark
        ("[THINK]a</think>5[/THINK]6", "6"),
        ("<think:a>b</think:a>5", "5"),
        ("<think:a>b</think:c>5", None),
    ],
)
def test_a_text_of_an_unknown_model_tells_by_which_marks_it_thinks(text: str, answer: str | None) -> None:
    assert parted(text).answer == answer


def test_no_two_families_share_a_mark_and_every_mark_is_looked_for() -> None:
    texts = [text for marks in TABLE for text in marks.texts]
    assert len(set(texts)) == len(texts)
    for marks in TABLE:
        if marks.closes_alone and marks is not THINK:
            assert thoughts.has_mark_within(marks.texts[1])
            assert marks.is_plain or thoughts.has_mark_within(marks.texts[0])


TEMPLATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "gpt-oss": (f"<|start|>assistant{ANALYSIS}{{{{ m.thinking }}}}<|end|>", ("<|channel|>", "<|message|>")),
    "seed-oss": ("{%- set think_begin_token = '<seed:think>' %}", ("<seed:think>", "</seed:think>")),
    "magistral": ("", ("[INST]", "[THINK]", "[/THINK]")),
    "command a": ("{{ '<|START_THINKING|>' }}", ()),
    "hunyuan": ("{{ '<think:opensource>' }}", ()),
    "exaone deep": ("{{ '[|assistant|]<thought>\n' }}", ()),
    "granite 3.2": ("write 'Here is my thought process:' and 'Here is my response:'", ()),
}


@pytest.mark.parametrize("family", TEMPLATES)
def test_a_models_template_and_tokens_show_its_marks_and_those_count_wherever_they_stand(
    family: str, subtests: pytest.Subtests
) -> None:
    own = marks_of(*TEMPLATES[family])
    assert len(own) == 1
    opening, closing = SPOKEN[family]
    for text, answer in (
        (f"{opening}So{closing}5", "5"),
        (f"So{closing}5", "5"),
        (f"5 {opening}So", None),
        (f"<think>So</think>5 {opening}So", None),  # no way out by another's marks
        ("<think>So</think>5", "5"),
        ("<reasoning>So</reasoning>5", "5"),
        ("<reasoning>So 5", None),
    ):
        with subtests.test(text=text):
            for found in (parted(text, own).answer, parted(told(text, own)).answer):
                assert (found if found is None else found.strip()) == answer


def test_a_known_model_begins_no_thought_by_anothers_marks() -> None:
    own = marks_of("{{ '<think>' }}")
    assert own == (THINK,)
    for family in SPOKEN.keys() - {"r1", "exaone deep", "marco-o1", "reflection", "recipes", "unsloth"}:
        opening, closing = SPOKEN[family]
        for text in (f"{opening}So, so{closing}5", f"{opening}5", f"So, so{closing}5", f"5 {opening}"):
            assert parted(text, own).answer == text
            assert parted(told(text, own)).answer == text


def test_a_model_that_shows_no_marks_is_nobodys() -> None:
    assert marks_of("{{ '<|im_start|>' + message.role }}", ("<|im_start|>", "<|im_end|>")) == ()
    assert told("[THINK]a[/THINK]5", ()) == "[THINK]a[/THINK]5"


@pytest.mark.parametrize("family", SPOKEN)
def test_a_text_that_anybody_understands_is_told_as_it_was_said(family: str) -> None:
    opening, closing = SPOKEN[family]
    own = [marks for marks in TABLE if marks.opening.search(opening)] or marks_of(opening)
    if family != "gpt-oss, bare":  # what generators decode has the special tokens
        for text in (f"{opening}So, it is 3{closing}It is 5.", f"{opening}So", "It is 5."):
            assert told(text, own) == text


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|im_start|>assistant\n", ""),
        ("<|im_start|>assistant\n<think>\n", "<think>\n"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", ""),
        ("<|start|>assistant", ""),
        (f"<|end|><|start|>assistant{ANALYSIS}", f"<|end|><|start|>assistant{ANALYSIS}"),
        (f"<|end|>{FINAL}", ""),
        ("[|assistant|]<thought>\n", "<thought>\n"),
        ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>", "<|START_THINKING|>"),
        ("<seed:bos>assistant\n<seed:think>", "<seed:think>"),
        ("<|begin_assistant|>\nHere are my reasoning steps:\n", "Here are my reasoning steps:\n"),
        ("[/INST][THINK]", "[THINK]"),
        ("<|turn>model\n<|channel>thought\n<channel|>", ""),
        ("<|turn>model\n<|channel>thought\n", "<|channel>thought\n"),
        ("thinking", ""),
        ("", ""),
    ],
)
def test_a_prompt_may_open_the_thought(prompt: str, opened: str) -> None:
    assert opened_by(prompt) == opened
    assert (parted(opened + "So it is 5").answer is None) is bool(opened)
    own = marks_of(prompt)
    assert opened_by(prompt, own) == opened


def test_no_text_takes_long() -> None:
    pieces = [
        *(text for marks in TABLE for text in marks.texts),
        "<|end|>", "<|channel|>final<|message|>", "<|channel|>final ", "<|start|>assistant", "<think:a>",
        "</think:b>", "assistantanalysis", "Here is ", " ", "<", "[", "a", "<|",
    ]  # fmt: skip
    slow = [
        (start, piece)
        for start in ("", "x", "<|channel|>", "analysis", "<think:a>", "[THINK]")
        for piece in pieces
        if not is_linear(parted, partial(repeated, start, piece), 10_000)
    ]
    assert slow == []


def repeated(start: str, piece: str, size: int) -> str:
    """Return a text of about so many characters."""
    return start + piece * (size // len(piece))
