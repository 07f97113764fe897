"""Instructions to repeat a text that the row has.

In: an instruction's arguments. Out: its check. Texts are the same word for word: upper and lower case and the kind of
space make no difference.
"""

from __future__ import annotations

from typing import Final

from scorers.instructions.arguments import Arguments, Check
from scorers.instructions.texts import has_content, squeezed, words
from scorers.text.invisible import seen

_SEPARATOR: Final = "******"


def repeat_prompt(args: Arguments) -> Check:
    """Ask for `prompt_to_repeat` first, and an answer after it."""
    prompt = squeezed(args.text("prompt_to_repeat"))

    def check(response: str) -> str | None:
        text = squeezed(response)
        if not text.startswith(prompt):
            return "it does not begin with the request, word for word"
        return None if has_content(text[len(prompt) :]) else "nothing follows the request"

    return check


def copy(args: Arguments) -> Check:
    """Ask for `prompt_to_repeat` and nothing else."""
    prompt = squeezed(args.text("prompt_to_repeat"))
    return lambda response: (
        None if squeezed(response) == prompt else "it is not the request, word for word and alone"
    )


def copy_times(args: Arguments) -> Check:
    """Ask for `prompt_to_repeat`, `N` times, with six asterisks between, and nothing else."""
    prompt, times = squeezed(args.text("prompt_to_repeat")), args.count("N", least=1)

    def check(response: str) -> str | None:
        found = [squeezed(part) for part in response.split(_SEPARATOR)]
        same = sum(part == prompt for part in found)
        return (
            None
            if same == len(found) == times
            else f"{same} of {len(found)} parts are the request, not {times}"
        )

    return check


def copy_span(args: Arguments) -> Check:
    """Ask for the characters of `prompt_to_repeat` from `n_start` to `n_end`.

    With the last of them, as the instruction says, or without it, as IFBench's own scorer has it.
    """
    prompt, start, end = (
        args.whole_text("prompt_to_repeat"),
        args.count("n_start"),
        args.count("n_end", least=1),
    )
    spans = {squeezed(seen(prompt[start:last])) for last in (end, end + 1)} - {""}
    if not spans:
        raise args.wrong("n_start", f"a place before n_end within the prompt's {len(prompt)} characters")
    return lambda response: None if squeezed(response) in spans else f"it is not characters {start} to {end}"


def repeat_phrase(args: Arguments) -> Check:
    """Ask for `phrase` exactly `small_n` times, each time with exactly one of its inner words replaced."""
    phrase, wanted = [word.casefold() for word in words(args.text("phrase"))], args.count("small_n", least=1)
    if len(phrase) < 3:
        raise args.wrong("phrase", "three words or more")

    def check(response: str) -> str | None:
        found = [word.casefold() for word in words(response)]
        changed = 0
        for start, word in enumerate(found):
            if word != phrase[0]:
                continue
            different = sum(
                one != other for one, other in zip(found[start : start + len(phrase)], phrase, strict=False)
            )
            if found[start + len(phrase) - 1 : start + len(phrase)] != phrase[-1:] or different > 1:
                continue
            if different == 0:
                return "the phrase without a change"
            changed += 1
        return (
            None if changed == wanted else f"{changed} times the phrase with one word replaced, not {wanted}"
        )

    return check


def two_responses(_: Arguments) -> Check:
    """Ask for two different responses, with six asterisks between them."""

    def check(response: str) -> str | None:
        parts = response.split(_SEPARATOR)
        if not parts[-1].strip():
            parts.pop()
        if parts and not parts[0].strip():
            parts.pop(0)
        if len(parts) != 2 or not all(map(has_content, parts)):
            return f"{len(parts)} responses with six asterisks between, not 2"
        return None if squeezed(parts[0]) != squeezed(parts[1]) else "the two responses are the same"

    return check
