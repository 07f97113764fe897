r"""Find the answer in a completion; pure functions on text, the same for every scorer.

In: the text of a completion without its prompt, so that nothing in the prompt counts. Out: the answering part, and in
it the last box, the last `<answer>` or the fenced blocks. Nothing is erased or rewritten, so no marker in a model's
text can hide a part of it. Called in the scorer's process, without a deadline: every function takes time linear in the
length of the text. Callers that look for fenced blocks refuse responses of more than MAX_RESPONSE_CHARS: one that
consists of fences alone takes about a second.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tasks.thoughts import parted

MAX_RESPONSE_CHARS: Final = 1_000_000
# Marks that end a turn in the usual chat templates. Generators leave their stop token out of the text; recorded
# completions often still have one.
END_MARKS: Final = (
    "<|im_end|>",
    "<|endoftext|>",
    "</s>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|user|>",
    "<|observation|>",
    "<|assistant_end|>",
    "<|end_message|>",
    "<|END_RESPONSE|>",
    "<|END_TEXT|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end_of_solution|>",
    "<|close|>response<|sep|>",
    "<|close|>message<|sep|>",
    "<|endofturn|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
)

# Also the marks of EXAONE, Seed-OSS and Apriel.
_MORE_END_MARKS: Final = ("[|endofturn|]", "<seed:eos>", "[END FINAL RESPONSE]")
# For a text that is read backwards; always matches at its beginning, maybe nothing. No possessive quantifier, though
# backtracking is never needed: Python before 3.11.4 misreads a group with one.
_ENDING: Final = re.compile(
    rf"(?:\s*(?:{'|'.join(re.escape(mark[::-1]) for mark in END_MARKS + _MORE_END_MARKS)}))*"
)
_BOX_OPEN: Final = re.compile(r"\\boxed\s*\{")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)  # escaped characters, braces or not, are no structure
_LINE_WITH_RUN: Final = re.compile(r"^[^\n]*?(?:```|~~~)[^\n]*$", re.MULTILINE)
_FENCE: Final = re.compile(r"(?P<indent>[ \t]*)(?P<run>`{3,}|~{3,})(?P<info>[^\n]*)")
_ENDING_INDENT: Final = (
    3  # columns by which a closing fence may be to the right of its opening one (CommonMark)
)
_MOST_INDENT: Final = 16  # columns that are distinguished


@dataclass(frozen=True, slots=True)
class Block:
    """One closed fenced block."""

    tag: str  # the first word of its info string, lower-cased; "" if there is none
    text: str  # the lines between the fences, unchanged except for the opening fence's indentation


class Unanswered(Exception):
    """A completion has nothing to compare; the message is the reason for its zero."""


def answering_part(text: str) -> str:
    """Return the text after the thinking, as `response_part`. Raises Unanswered: there is none, or it is too long."""
    return within(closed_part(text), MAX_RESPONSE_CHARS, "a response")


def closed_part(text: str) -> str:
    """Return the text after the thinking, of any length. Raises Unanswered."""
    response = response_part(text)
    if response is None:
        raise Unanswered("the thinking was never closed")
    return response


def within(text: str, max_chars: int, what: str = "an answer") -> str:
    """Return `text`, called `what` in the message. Raises Unanswered if it has more characters."""
    if len(text) > max_chars:
        raise Unanswered(f"{what} of {len(text)} characters; {max_chars} is the limit")
    return text


def response_part(text: str) -> str | None:
    """Return the text after the last closed thinking span, or all, without the marks at the turn's end.

    `tasks.thoughts` has the marks of a span. The opening one may be missing: some chat templates put it at the end of
    the prompt. None if a span is opened and never closed: such a completion is still thinking and has not answered.
    """
    return parted(_unended(text)).answer


def thought_part(text: str) -> str | None:
    """Return the thinking before the answer, without the marks; None if no thought has ended."""
    return parted(_unended(text)).thought


def _unended(text: str) -> str:
    return _ENDING.sub("", text[::-1], count=1)[::-1]


def visible(text: str) -> str:
    """Return the text as a reader sees it: full-width letters as plain ones, without characters of no width."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


def last_box(response: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` with balanced braces, over any number of lines, or None.

    If the last box is never closed, there is no answer, and no earlier box replaces it: the text was cut off while it
    stated its result. Escaped braces (`\{`) are content, not structure. Of nested boxes the innermost counts.
    """
    start = None
    for opening in _BOX_OPEN.finditer(response):
        start = opening.end()
    if start is None:
        return None
    depth = 1
    for brace in _BRACE.finditer(response, start):
        depth += (brace.group() == "{") - (brace.group() == "}")
        if depth == 0:
            return response[start : brace.start()]
    return None


def last_answer(response: str, tag: str = "answer") -> str | None:
    """Return the content of the last `<answer>...</answer>`, over any number of lines, stripped, or None.

    A tag that is opened and never closed does not count. Of nested tags the innermost counts. `tag` is the name of the
    tag; LiveBench's is `solution`.
    """
    closing = response.rfind(f"</{tag}>")
    opening = response.rfind(f"<{tag}>", 0, max(closing, 0))
    if opening < 0:
        return None
    start = opening + len(f"<{tag}>")
    return response[start : response.index(f"</{tag}>", start)].strip()


def last_block(response: str, tags: Collection[str]) -> str | None:
    """Return the text of the last block with one of these tags, in any case, else without a tag, else None."""
    blocks = fenced_blocks(response)
    for accepted in ({tag.lower() for tag in tags}, {""}):
        for block in reversed(blocks):
            if block.tag in accepted:
                return block.text
    return None


def fenced_blocks(response: str) -> list[Block]:
    r"""Return every closed fenced block, in order.

    A fence is three or more backticks or tildes at the start of a line, indented or not. It ends at a line with at
    least as many of the same characters and nothing else, so a longer fence may contain shorter ones. The closing fence
    is less than four columns to the right of the opening one, so an example in a docstring is content. Two deviations
    from CommonMark: a fence with an info string, where one could end, opens another block, and the open one is dropped;
    and three backticks directly after the last line of code (`print(1)` and the fence in one line) end a block that
    nothing else ends.
    Returns: blocks without a line break at the end of their text; line breaks within are unchanged, `\r\n` too.
    """
    fences = [_Fence.of(line) for line in _LINE_WITH_RUN.finditer(response)]
    outlook = _outlook(fences)
    blocks = []
    number = 0
    while number < len(fences):
        opening, (has_end, glued) = fences[number], outlook[number]
        number += 1
        if not opening.takes_glued:
            glued = None
        if has_end:
            while not fences[number].ends(opening):
                number += 1
            if not fences[number].info:
                blocks.append(_block(response, opening, fences[number].start))
                number += 1
                continue
            if glued is not None and glued > number:
                glued = None
        if glued is not None:
            blocks.append(_block(response, opening, fences[glued].glued))
            number = glued + 1
    return blocks


@dataclass(frozen=True, slots=True)
class _Fence:
    """A line with three or more fence characters in a row."""

    start: int  # offset of the line
    end: int  # offset of its line break, or of the text's end
    indent: int = 0  # characters before the fence, at most _MOST_INDENT
    mark: str = ""  # "`" or "~"; "" if the line does not begin with a fence
    length: int = 0  # of the run
    info: str = ""  # the text after the run, stripped
    glued: int = -1  # offset of three backticks that end the line after some code; -1 if there are none

    @classmethod
    def of(cls, line: re.Match[str]) -> _Fence:
        text = line.group()
        fence = _FENCE.match(text)
        if fence is not None and not (
            fence["run"][0] == "`" and "`" in fence["info"]
        ):  # otherwise inline code
            return cls(
                line.start(),
                line.end(),
                min(len(fence["indent"]), _MOST_INDENT),
                fence["run"][0],
                len(fence["run"]),
                fence["info"].strip(),
            )
        code = text.rstrip()
        is_glued = code.endswith("```") and not code.endswith("````") and code.count("```") == 1
        return cls(line.start(), line.end(), glued=line.start() + len(code) - 3 if is_glued else -1)

    @property
    def takes_glued(self) -> bool:
        return self.mark == "`" and self.length == 3

    def ends(self, opening: _Fence) -> bool:
        """Return whether this fence ends the block of `opening`: as its end or, with an info string, as a new start."""
        return (
            self.mark == opening.mark
            and self.length >= opening.length
            and self.indent <= min(opening.indent + _ENDING_INDENT, _MOST_INDENT)
        )


def _outlook(fences: list[_Fence]) -> list[tuple[bool, int | None]]:
    """Return for each line whether a later one ends its block, and the next line with a glued fence.

    Computed once, so that thousands of fences that never end need no separate searches.
    """
    longest = {mark: [0] * (_MOST_INDENT + 1) for mark in "`~"}  # of fences with at most this indentation
    glued: int | None = None
    outlook: list[tuple[bool, int | None]] = []
    for number in range(len(fences) - 1, -1, -1):
        fence = fences[number]
        if not fence.mark:
            outlook.append((False, glued))
            glued = number if fence.glued >= 0 else glued
            continue
        lengths = longest[fence.mark]
        outlook.append((lengths[min(fence.indent + _ENDING_INDENT, _MOST_INDENT)] >= fence.length, glued))
        for indent in range(fence.indent, _MOST_INDENT + 1):
            if lengths[indent] >= fence.length:
                break
            lengths[indent] = fence.length
    return outlook[::-1]


def _block(response: str, opening: _Fence, end: int) -> Block:
    lines = response[opening.end + 1 : end]
    if opening.indent:
        lines = re.sub(rf"^[ \t]{{1,{opening.indent}}}", "", lines, flags=re.MULTILINE)
    word = opening.info.split(maxsplit=1)[0] if opening.info else ""
    return Block(word.strip("{}.").lower(), lines.removesuffix("\n").removesuffix("\r"))
