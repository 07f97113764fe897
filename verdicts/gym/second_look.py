"""Check answers that reasoning-gym's scorers accept: some scorers read a part of an answer and ignore the rest.

In: an answer, and its row. Out: why it is worth nothing, not even a share (`worthless`), or why it is another answer
than the right one (`differs`); None if no check fails. Called by `verdicts.gym.rules`, after the library; an answer
that the library rejects is never accepted here. Data sets that are in no table have scorers that compare whole texts,
or check a whole solution themselves. Everything takes time linear in the answer's length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from verdicts.gym import digits, logic, plans
from verdicts.gym.rows import GymRow

_SIXTY: Final = r"[0-5]\d"
_WORD: Final = r"[^\s,.()]+"

# How a whole answer is written, if the library searches for a part of it, or ignores what it can't read.
_WRITTEN: Final[Mapping[str, str]] = {
    "arc_agi": r"[\d\s]+",
    "rearc": r"[\d\s]+",
    "bitwise_arithmetic": r"[+-]?0[xX][\da-fA-F]+",
    "cryptarithm": r"[A-Z]\s*=\s*\d(?:\s*,\s*[A-Z]\s*=\s*\d)*",
    "fraction_simplification": r"(\$*)\s*(?:\\d?frac\s*\{\s*\d+\s*\}\s*\{\s*\d+\s*\}|\d+\s*/\s*\d+)\s*\1",
    "gsm_symbolic": r"[+-]?\d+(?:\.\d*)?",
    "kakurasu": r"[01\s,\[\]]+",
    "pool_matrix": r"[\d\s.eE+-]+",
    "prime_factorization": r"\d+(?:\s*\u00d7\s*\d+)*",
    "quantum_lock": r"[A-Ca-c](?:\s*(?:(?:\u2192|->|,)\s*)?[A-Ca-c])*",
    "sokoban": r"[UDLR\s,]+",
    "survo": r"[\d\s]+",
    "tower_of_hanoi": r"(?:Move disk \d+ from Peg \d+ to Peg \d+\s*)+",
}
# The same for time_intervals, by the kind of its task; the library reads the beginning.
_DURATIONS: Final[Mapping[str, str]] = {
    "date": r"[+-]?\d+(?: days)?|[+-]?1 day",
    "time": rf"\d{{1,3}}:{_SIXTY}(?::{_SIXTY}(?:\.\d{{3}})?)?",
    "datetime": rf"[+-]?\d+ days,\s*(?:[01]?\d|2[0-3]):{_SIXTY}(?::{_SIXTY})?",
}
_CONSTANTS: Final = "CcKkE"  # of integration, and the base of an exponential function
_FILLERS: Final = frozenset(("is", "a", "an", "and"))
_OPENERS: Final = frozenset(("so", "thus", "hence", "therefore"))


def worthless(answer: str, row: GymRow) -> str | None:
    """Return why a text is no answer: it has the wrong form, or only repeats given values. None if it is one."""
    name = row.dataset.name
    if name == "propositional_logic":
        return logic.conclusion(answer, row)
    pattern = _WRITTEN.get(name)
    if name == "time_intervals":
        pattern = _DURATIONS.get(str(row.metadata.get("task_type")).partition("_")[0])
    if pattern is None or re.fullmatch(pattern, answer, re.ASCII):
        return None
    return f"it is not written as an answer of {name} is"


def differs(answer: str, row: GymRow) -> str | None:
    """Return why an answer that the library gives full marks is wrong after all; None if it is right."""
    look = _LOOKS.get(row.dataset.name)
    return None if look is None else look(answer, row)


def _same_words(answer: str, row: GymRow) -> str | None:
    """Refuse another text, except for case and spaces: the library ignores text after the right one."""
    return None if answer.lower().split() == row.gold.lower().split() else "it is another text"


def _same_letters(answer: str, row: GymRow) -> str | None:
    """Refuse another word: the library accepts ten right letters as the right word."""
    return None if "".join(answer.lower().split()) == row.gold.strip().lower() else "it is another word"


def _one_variable(answer: str, row: GymRow) -> str | None:
    """Refuse symbols other than the variable and a constant: the library treats terms with them as constant."""
    symbols = {word for word in re.findall(r"[A-Za-z]+", answer) if len(word) == 1}
    others = sorted(symbols - {str(row.metadata.get("variable")), *_CONSTANTS})
    return f"it has the symbol {others[0]}, too" if others else None


def _same_list(answer: str, row: GymRow) -> str | None:
    """Refuse another list: the library ignores text after the right words."""
    one, other = ([word.strip() for word in text.split(",")] for text in (answer, row.gold))
    return None if one == other else "it is another list"


def _same_islanders(answer: str, row: GymRow) -> str | None:
    """Refuse words that do not say who is what: the library ignores `not`."""
    given = _islanders(answer)
    return None if given and given == _islanders(row.gold) else "it says something else of the islanders"


def _islanders(text: str) -> dict[str, str] | None:
    """Return the role of each islander by name; None if the text contains anything else, or a name twice."""
    words = [word for word in re.findall(_WORD, text.lower()) if word not in _FILLERS]
    if words and words[0] in _OPENERS:
        del words[0]
    roles = dict(zip(words[::2], words[1::2], strict=False))
    return roles if 2 * len(roles) == len(words) else None


_LOOKS: Final[Mapping[str, Callable[[str, GymRow], str | None]]] = {
    "advanced_geometry": digits.geometry,
    "boxnet": plans.readable(plans.boxes),
    "chain_sum": digits.equal,
    "codeio": plans.readable(plans.same_json),
    "coin_flip": digits.probability,
    "cryptarithm": plans.assignment,
    "decimal_arithmetic": digits.decimal_expression,
    "decimal_chain_sum": digits.equal,
    "dice": _same_words,
    "figlet_font": _same_letters,
    "game_of_life": plans.readable(plans.board_of_life),
    "gsm_symbolic": digits.equal,
    "graph_color": plans.readable(plans.colouring),
    "intermediate_integration": _one_variable,
    "jugs": plans.readable(plans.jugs),
    "knights_knaves": _same_islanders,
    "letter_jumble": _same_words,
    "number_format": digits.candidate,
    "number_sorting": digits.ordered,
    "palindrome_partitioning": plans.readable(plans.partitions),
    "polynomial_equations": digits.roots,
    "pool_matrix": digits.pooled,
    "power_function": digits.power,
    "products": digits.equal,
    "rush_hour": plans.cars,
    "simple_integration": _one_variable,
    "sokoban": plans.pushes,
    "spell_backward": _same_words,
    "word_sorting": _same_list,
    "zebra_puzzles": _same_words,
}
