"""Instructions about words that have to be there, or must not.

In: an instruction's arguments. Out: its check. A keyword that is wanted counts wherever its letters stand, in any case,
within a longer word too, as it does for IFEval's own scorer; one that is forbidden is a word of its own. A keyword is
text: what has a meaning in a regular expression has none here.
"""

from __future__ import annotations

import re

from scorers.instructions.arguments import Arguments, Check
from scorers.instructions.texts import sentences, words


def existence(args: Arguments) -> Check:
    """Ask for each of `keywords`."""
    wanted = args.texts("keywords")

    def check(response: str) -> str | None:
        missing = [word for word in wanted if not _occurrences(response, word)]
        return f"without {', '.join(missing)}" if missing else None

    return check


def frequency(args: Arguments) -> Check:
    """Ask for `keyword` at least, or less than, `frequency` times, by `relation`."""
    keyword, amount = args.text("keyword"), args.amount("frequency", "relation")
    return lambda response: amount.fault(_occurrences(response, keyword), f"times {keyword!r}")


def forbidden_words(args: Arguments) -> Check:
    """Forbid each of `forbidden_words` as a word."""
    return _without(args.texts("forbidden_words"))


def exclude_word(args: Arguments) -> Check:
    """Forbid `keyword` as a word, whatever marks are next to it."""
    return _without((args.text("keyword"),))


def once(args: Arguments) -> Check:
    """Ask for `keyword` exactly once."""
    keyword = args.text("keyword")
    return lambda response: _not_exactly(response, (keyword, 1))


def once_and_twice(args: Arguments) -> Check:
    """Ask for `keyword1` exactly once and `keyword2` exactly twice."""
    first, second = args.text("keyword1"), args.text("keyword2")
    return lambda response: _not_exactly(response, (first, 1), (second, 2))


def at_position(args: Arguments) -> Check:
    """Ask for `keyword` as word `m` of sentence `n`, both counted from 1."""
    keyword, sentence, place = args.text("keyword"), args.count("n", least=1), args.count("m", least=1)

    def check(response: str) -> str | None:
        found = sentences(response)
        if len(found) < sentence:
            return f"{len(found)} sentences, none of them is number {sentence}"
        its_words = words(found[sentence - 1])
        if len(its_words) < place:
            return f"sentence {sentence} has {len(its_words)} words, none of them is number {place}"
        word = its_words[place - 1]
        return (
            None
            if word.casefold() == keyword.casefold().rstrip(".")
            else f"word {place} of sentence {sentence} is {word!r:.60}"
        )

    return check


def _occurrences(response: str, keyword: str) -> int:
    return response.casefold().count(keyword.casefold())


def _not_exactly(response: str, *wanted: tuple[str, int]) -> str | None:
    for keyword, times in wanted:
        if (found := _occurrences(response, keyword)) != times:
            return f"{found} times {keyword!r}, not {times}"
    return None


def _without(forbidden: tuple[str, ...]) -> Check:
    words_of_row = "|".join(re.escape(word) for word in forbidden)
    pattern = re.compile(rf"(?<![^\W_])(?:{words_of_row})(?![^\W_])", re.IGNORECASE)

    def check(response: str) -> str | None:
        found = pattern.search(response)
        return None if found is None else f"it has {found.group()!r}"

    return check
