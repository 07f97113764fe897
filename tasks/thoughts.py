"""Split a completion's text into its thought and its answer, with one table of all models' thinking marks.

In: the text of a completion, and the marks of its model if they are known. Out: its thought and its answer. Used by
scorers (`scorers.text.extract`), generators and agents (`tasks.model_chat`), and code that shows answers to a judge.
The marks are those of the models' published chat templates. Pure functions; every step takes time linear in the length
of the text.

`<think>` always counts, since recipes ask every model for it. If the model is known, its own marks count too, and other
models' marks are plain text. If the model is unknown, as for a recorded text, the marks that the text begins with
count. If it begins with none, all marks that look like special tokens count. A tag of plain words, which any text may
contain, then counts only as the end of a thought that the text did not open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_FRAME: Final = ("<response>", "</response>")  # put by Granite 3.3 around the text after `</think>`
_TAIL_CHARS: Final = 200  # of a prompt's end; longer than any mark


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Marks:
    """Thinking marks of one family of models."""

    family: str  # of models, for messages
    texts: tuple[str, str]  # text that opens a thought and text that ends it, as written
    opening: re.Pattern[str]
    closing: re.Pattern[str]
    begins: re.Pattern[str]  # matches the beginning of a text that begins with a thought
    hints: tuple[str, ...]  # a text with one of the marks contains one of these
    is_plain: bool = False  # any text may contain the marks
    is_asked: bool = False  # prompts ask any model for them
    closes_alone: bool = True  # the prompt may have opened a thought

    def counts_in(self, text: str) -> bool:
        """Return whether these marks count in a text of an unknown model that does not begin with one."""
        if not any(hint in text for hint in self.hints):
            return False
        closing, opening = self.closing.search(text), self.opening.search(text)
        if not self.is_plain:
            return (closing or opening) is not None
        is_lone = closing is not None and (opening is None or closing.start() < opening.start())
        return self.closes_alone and is_lone

    def is_named(self, template: str, tokens: Sequence[str]) -> bool:
        """Return whether a model's template or one of its tokens contains the marks."""
        return any(
            pattern.search(template) or any(map(pattern.fullmatch, tokens))
            for pattern in (self.opening, self.closing)
        )


@dataclass(frozen=True, slots=True)
class Parted:
    """A completion, split into thought and answer."""

    thought: (
        str | None
    )  # all text before the end of the last thought, without its marks; None: no thought has ended
    answer: str | None  # the text after it; None: a thought was begun and has not ended


def _marks(
    family: str,
    opening: str,
    closing: str,
    *,
    opens: str = "",
    closes: str = "",
    begins: str = "",
    hints: tuple[str, ...] = (),
    is_plain: bool = False,
    is_asked: bool = False,
    closes_alone: bool = True,
) -> Marks:
    """Build a row of the table; `opens`, `closes` and `begins` are patterns for marks with more than one form."""
    start = opens or re.escape(opening)
    return Marks(
        family=family,
        texts=(opening, closing),
        opening=re.compile(start),
        closing=re.compile(closes or re.escape(closing)),
        begins=re.compile(begins or start),
        hints=hints or (opening, closing),
        is_plain=is_plain,
        is_asked=is_asked,
        closes_alone=closes_alone,
    )


def _tag(name: str, family: str) -> Marks:
    """Build the row for a tag of plain words, in any case."""
    return _marks(
        family,
        f"<{name}>",
        f"</{name}>",
        opens=rf"(?i:<{name}>)",
        closes=rf"(?i:</{name}>)",
        hints=(f"{name[1:]}>", f"{name[1:].upper()}>"),
        is_plain=True,
        is_asked=True,
    )


THINK: Final = _marks(
    "DeepSeek-R1, Qwen3, QwQ, GLM, Phi-4-reasoning, EXAONE 4, Granite 3.3, Hunyuan-A13B, Kimi K2, Nemotron, most",
    "<think>",
    "</think>",
)
THINK_OPEN, THINK_CLOSE = THINK.texts
# The head of a message of gpt-oss, `<|start|>assistant<|channel|>analysis<|message|>`; the channel `final` answers.
_HEAD: Final = r"(?:<\|end\|>\s*)?(?:<\|start\|>assistant[^<]{0,80})?<\|channel\|>\s*"
_REST_OF_HEAD: Final = r"[^<]{0,80}(?:<\|constrain\|>[^<]{0,80})?<\|message\|>"
# The same, decoded without special tokens.
_BARE_HARMONY: Final = _marks(
    "gpt-oss, without its special tokens",
    "analysis",
    "assistantfinal",
    opens=r"assistant(?:analysis|commentary)",
    closes=r"assistantfinal(?: ?json(?=\s*[\[{]))?",
    begins=r"analysis(?=[^\W_]|[<\\$*#`]|[\s\S]*?assistantfinal)",
    hints=("assistantfinal",),
    is_plain=True,
)
TABLE: Final = (
    THINK,
    _marks(
        "gpt-oss (harmony)",
        "<|channel|>",
        "<|channel|>final<|message|>",
        opens=rf"{_HEAD}(?:(?!final\b)\w{{1,40}}\b{_REST_OF_HEAD})?",
        closes=rf"{_HEAD}final\b{_REST_OF_HEAD}",
        hints=("<|channel|>",),
    ),
    _marks("Seed-OSS", "<seed:think>", "</seed:think>"),
    _marks("Magistral", "[THINK]", "[/THINK]", is_plain=True),
    _marks(
        "Command A Reasoning, Command R7B",
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        closes=r"(?:<\|END_THINKING\|>\s*)?<\|START_(?:RESPONSE|TEXT)\|>|<\|END_THINKING\|>",
        hints=("_THINKING|>", "<|START_"),
    ),
    _marks("Kimi-VL-Thinking", "\u25c1think\u25b7", "\u25c1/think\u25b7"),
    _marks("Gemma 4", "<|channel>", "<channel|>", opens=r"<\|channel>(?:thought\b)?"),
    _marks(
        "OpenThinker, Sky-T1",
        "<|begin_of_thought|>",
        "<|end_of_thought|>",
        closes=r"(?:<\|end_of_thought\|>\s*)?<\|begin_of_solution\|>|<\|end_of_thought\|>",
        hints=("_of_thought|>", "_of_solution|>"),
    ),
    _marks("Apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    _marks("MiniMax-M3", "<mm:think>", "</mm:think>"),
    _marks("LongCat", "<longcat_think>", "</longcat_think>"),
    _marks("PLaMo 3", "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    _marks(
        "K2 Horizon",
        "<ifm|think>",
        "</ifm|think>",
        opens=r"<ifm\|think(?:_fast(?:er)?)?>",
        closes=r"</ifm\|think(?:_fast(?:er)?)?>",
        hints=("ifm|think",),
    ),
    _marks(
        "Kimi K3",
        "<|open|>think<|sep|>",
        "<|close|>think<|sep|>",
        closes=r"<\|close\|>think<\|sep\|>\s*(?:<\|open\|>response<\|sep\|>)?",
    ),
    _marks(
        "Inkling",
        "<|content_thinking|>",
        "<|content_text|>",
        opens=r"(?:<\|end_message\|>\s*)?(?:<\|message_model\|>\s*)?<\|content_thinking\|>",
        closes=r"(?:<\|end_message\|>\s*)?(?:<\|message_model\|>\s*)?<\|content_text\|>",
    ),
    _marks("Pangu", "[unused16]", "[unused17]", is_plain=True),
    _marks("Apriel", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", is_plain=True),
    _marks(
        "Granite 3.2",
        "Here is my thought process:",
        "Here is my response:",
        opens=r"Here(?: is|['\u2019]s) my thought process:",
        closes=r"Here(?: is|['\u2019]s) my response:",
        hints=(" my thought process:",),
        is_plain=True,
        closes_alone=False,
    ),
    _marks(
        "HyperCLOVA X SEED Think",
        "<|im_start|>assistant/think\n",
        "<|im_end|>\n<|im_start|>assistant\n",
        begins=r"(?:<\|im_start\|>assistant)?/think\n",
        is_plain=True,
        closes_alone=False,
    ),
    _marks("recipes of Unsloth", "<start_working_out>", "<end_working_out>", is_plain=True, is_asked=True),
    _tag("thought", "EXAONE Deep, Marco-o1"),
    _tag("thinking", "Reflection, and recipes that ask for it"),
    _tag("reasoning", "recipes that ask for it"),
    _BARE_HARMONY,
)
# Every mark that counts within a text, and every beginning of a thought, contains one of these; most texts have none.
_SIGN: Final = re.compile(r"<(?:\||/?[a-zA-Z_]{1,20}[:|>])")
_OTHER_SIGNS: Final = ("[THINK]", "[/THINK]", "[unused1", "[BEGIN FINAL", "\u25c1", "assistantfinal")
_FIRST: Final = frozenset(marks.texts[0][0] for marks in TABLE) | {"/"}
_SUFFIX: Final = re.compile(r"</?think(:[\w.-]{1,40})>")  # of newer Hunyuan models, each with its own suffix


def marks_of(template: str, tokens: Iterable[str] = ()) -> tuple[Marks, ...]:
    """Return the marks of a model; () if neither its template nor its tokens have any.

    Args:
        template: the model's chat template.
        tokens: those that were added to its vocabulary, including special ones.
    """
    added = tuple(tokens)
    suffixes = {suffix for text in (template, *added) for suffix in _SUFFIX.findall(text)}
    named = [marks for marks in TABLE if marks is not _BARE_HARMONY and marks.is_named(template, added)]
    return (*named, *map(_suffixed, sorted(suffixes)))


def parted(text: str, own: Sequence[Marks] = ()) -> Parted:
    """Split a text into its thought and its answer.

    Args:
        text: a completion, without the token that ends its turn.
        own: the marks of its model; (): the model is unknown.
    """
    start = len(text) - len(text.lstrip())
    counted, end = _counted(text, start, own), 0
    for marks in counted:
        for closing in marks.closing.finditer(text, end):
            end = closing.end()
    answer, thought = text[end:], _unmarked(text[start:end], counted) if end else None
    is_begun = any(
        marks.opening.search(answer) or (not end and marks.begins.match(text, start)) for marks in counted
    )
    return Parted(thought, None if is_begun else _unframed(answer) if end else answer)


def told(text: str, own: Sequence[Marks]) -> str:
    """Return a text that a reader who does not know the model splits in the same way as one who knows it.

    The text is returned unchanged, unless marks in it count for its model alone, or for other models alone. Its
    thoughts are then marked by `<think>` and `</think>`.
    """
    mine = parted(text, own)
    if not own or mine.answer == parted(text).answer:
        return text
    thought = THINK.closing.sub(" ", text if mine.answer is None else mine.thought or "")
    return (
        f"{THINK_OPEN}{thought}"
        if mine.answer is None
        else f"{THINK_OPEN}{thought}{THINK_CLOSE}{mine.answer}"
    )


def opened_by(prompt: str, own: Sequence[Marks] = ()) -> str:
    """Return the mark at the end of a prompt, with the white space after it; "" if it leaves no thought open.

    Args:
        prompt: its last part is enough.
        own: the marks of the model; (): any of the table.
    """
    tail = prompt.rstrip()
    starts = [
        found.start()
        for marks in (*own, *(marks for marks in TABLE if not own or marks.is_asked or marks is THINK))
        for found in marks.opening.finditer(tail, max(0, len(tail) - _TAIL_CHARS))
        if found.end() == len(tail)
    ]
    return prompt[min(starts) :] if starts else ""


def has_mark_within(text: str) -> bool:
    """Return whether a text may contain a mark that counts within it; fast, since most contain none."""
    return any(sign in text for sign in _OTHER_SIGNS) or _SIGN.search(text) is not None


def _counted(text: str, start: int, own: Sequence[Marks]) -> list[Marks]:
    """Return the marks that count in a text, see the module, `<think>` first; `start` follows leading white space."""
    has_sign = has_mark_within(text)
    known = [*TABLE[1:], *(_suffixed_in(text) if has_sign else ())]
    begun = [
        marks for marks in known if text[start : start + 1] in _FIRST and marks.begins.match(text, start)
    ]
    if own:
        others = [marks for marks in own if marks is not THINK]
        return [THINK, *others, *(marks for marks in begun if marks.is_asked and marks not in others)]
    if begun or THINK.begins.match(text, start):
        return [THINK, *begun]
    return [THINK, *(marks for marks in known if has_sign and marks.counts_in(text))]


def _unmarked(thought: str, counted: Sequence[Marks]) -> str:
    for marks in counted:
        first = marks.begins.match(thought)
        thought = marks.opening.sub(" ", marks.closing.sub(" ", thought[first.end() if first else 0 :]))
    return thought


def _suffixed_in(text: str) -> list[Marks]:
    """Return the marks of a Hunyuan model: those of the first suffix, since a model has only one."""
    found = _SUFFIX.search(text) if "think:" in text else None
    return [_suffixed(found[1])] if found else []


def _suffixed(suffix: str) -> Marks:
    return _marks("Hunyuan", f"<think{suffix}>", f"</think{suffix}>")


def _unframed(answer: str) -> str:
    inside = answer.strip()
    is_framed = inside.startswith(_FRAME[0]) and inside.endswith(_FRAME[1])
    return inside[len(_FRAME[0]) : -len(_FRAME[1])] if is_framed else answer
