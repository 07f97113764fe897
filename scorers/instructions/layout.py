"""Instructions about the form of a response: lists, sections, marks, brackets, JSON.

In: an instruction's arguments. Out: its check. What is counted has to have content: an empty highlight, title,
placeholder or section is none.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from scorers.instructions.arguments import Arguments, Check
from scorers.instructions.texts import has_content, sentences

OPTIONS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_BULLET: Final = re.compile(r"^[ \t]*[-*+\u2022][ \t]+(.*)$", re.MULTILINE)
_HIGHLIGHT: Final = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])([^\n*]+)(?<!\s)\1(?!\*)")
_PLACEHOLDER: Final = re.compile(r"\[([^\[\]\n]+)\](?!\()")  # what an address follows is a link
_TITLE: Final = re.compile(r"<<([^<>\n]+)>>")
_BRACKETED: Final = re.compile(r"\[([^\[\]]+)\][.,;:!?]*")
_SPACED_HYPHEN: Final = re.compile(r"[.!?][\"'\u201d\u2019)\]]*-\s")
_FENCE: Final = "```"
_AFTER_WORDS: Final = ".,;:!?"


def bullets(args: Arguments) -> Check:
    """Exactly `num_bullets` items of Markdown lists without numbers."""
    wanted = args.count("num_bullets", least=1)

    def check(response: str) -> str | None:
        found = sum(map(has_content, _BULLET.findall(response)))
        return None if found == wanted else f"{found} bullet points, not {wanted}"

    return check


def highlights(args: Arguments) -> Check:
    """Ask for at least `num_highlights` spans of text between asterisks, one to three of them."""
    wanted = args.count("num_highlights", least=1)

    def check(response: str) -> str | None:
        found = sum(has_content(text) for _, text in _HIGHLIGHT.findall(response))
        return None if found >= wanted else f"{found} highlighted sections, not at least {wanted}"

    return check


def sections(args: Arguments) -> Check:
    """Ask for at least `num_sections` sections with content, each begun by `section_spliter` and its own number."""
    wanted, mark = args.count("num_sections", least=1), args.text("section_spliter")
    opening = re.compile(rf"^[^\w\n]*{re.escape(mark)}[ \t]*([0-9]+)[^\w\n]*", re.MULTILINE)

    def check(response: str) -> str | None:
        found = list(opening.finditer(response))
        ends = [following.start() for following in found[1:]] + [len(response)]
        numbers = {
            section[1].lstrip("0")
            for section, end in zip(found, ends, strict=False)
            if has_content(response[section.end() : end])
        }
        return (
            None
            if len(numbers) >= wanted
            else (
                f"{len(numbers)} sections with content under a line with {mark!r} and a number, not at least {wanted}"
            )
        )

    return check


def json_only(_: Arguments) -> Check:
    """Ask for one JSON object or array with something in it, in a fence or not, and nothing else."""

    def check(response: str) -> str | None:
        text = response.strip()
        if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
            text = text.removeprefix(_FENCE).removesuffix(_FENCE)
            text = text[4:] if text[:4].lower() == "json" else text
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return f"not JSON: {error}"[:120]
        is_filled = isinstance(value, dict | list) and bool(value)
        return None if is_filled else "JSON, but neither an object nor an array with content"

    return check


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def title(_: Arguments) -> Check:
    """Ask for a title, `<<like this>>`."""
    return lambda response: None if any(map(has_content, _TITLE.findall(response))) else "no title in <<>>"


def placeholders(args: Arguments) -> Check:
    """Ask for at least `num_placeholders` placeholders, `[like this]`."""
    wanted = args.count("num_placeholders", least=1)

    def check(response: str) -> str | None:
        found = sum(map(has_content, _PLACEHOLDER.findall(response)))
        return None if found >= wanted else f"{found} placeholders in square brackets, not at least {wanted}"

    return check


def constrained_response(_: Arguments) -> Check:
    """Ask for one of three answers, and no other of them beside it."""

    def check(response: str) -> str | None:
        found = [option for option in OPTIONS if option in response]
        return (
            None if len(found) == 1 else f"{len(found)} of the three answers that were to choose from, not 1"
        )

    return check


def square_brackets(_: Arguments) -> Check:
    """Ask for every word in square brackets, `[each] [by] [itself]`; punctuation may follow."""

    def check(response: str) -> str | None:
        for word in response.split():
            found = _BRACKETED.fullmatch(word)
            if found is None or not has_content(found[1]):
                return f"{word!r:.60} is no word in square brackets"
        return None

    return check


def bigrams(_: Arguments) -> Check:
    """Ask for every two words in double angular brackets, `<<like this>> <<one here>>`; a last odd word may be bare."""

    def check(response: str) -> str | None:
        found = [word.rstrip(_AFTER_WORDS) for word in response.split()]
        if len(found) < 2:
            return "fewer than two words"
        for first, second in zip(found[::2], found[1::2], strict=False):
            inside = f"{first[2:]} {second[:-2]}"
            if (
                not (first.startswith("<<") and second.endswith(">>"))
                or "<<" in inside
                or ">>" in inside
                or not (has_content(first) and has_content(second))
            ):
                return f"{first!r:.40} and {second!r:.40} are no two words in <<>>"
        return None

    return check


def hyphenated_sentences(_: Arguments) -> Check:
    """Sentences connected by hyphens, with no space between them."""

    def check(response: str) -> str | None:
        text = response.strip()
        if "\n" in text or _SPACED_HYPHEN.search(text) is not None:
            return "space beside a hyphen that connects two sentences, or a line break"
        found = len(sentences(text))
        return None if found <= 1 else f"{found} sentences with a space between them"

    return check
