"""Attacks derived from a grammar: what is done, when, how the function then answers, and in which shape of row.

In: how many, and a seed. Out: as many distinct cases, each of which deserves 0; the same ones for the same seed. The
families take turns, and so do the productions of each symbol. Every row pays for a share of its cases, so that a trick
which wins a single one is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.scorers.code.corpus.grammar.answers import ANSWERS
from tests.scorers.code.corpus.grammar.collection import COLLECTION
from tests.scorers.code.corpus.grammar.descriptors import DESCRIPTORS
from tests.scorers.code.corpus.grammar.dunders import DUNDERS
from tests.scorers.code.corpus.grammar.exits import EXITS
from tests.scorers.code.corpus.grammar.moments import MOMENTS
from tests.scorers.code.corpus.grammar.names import NAMES
from tests.scorers.code.corpus.grammar.rules import Deriver, Grammar
from tests.scorers.code.corpus.grammar.sealed_rows import ROWS, SealedRow
from tests.scorers.code.corpus.grammar.signals import SIGNALS
from tests.scorers.code.corpus.grammar.words import WORDS
from tests.scorers.code.corpus.rows import Case, fenced, row

COUNT, SEED = 1000, 0
FAMILIES: dict[str, Grammar] = {
    "names": NAMES,
    "dunders": DUNDERS,
    "signals": SIGNALS,
    "descriptors": DESCRIPTORS,
    "exits": EXITS,
    "collection": COLLECTION,
}
TIMES = tuple(symbol for symbol in MOMENTS if symbol.startswith("moment "))
NUMPY_ROWS = tuple(name for name, sealed in ROWS.items() if sealed.needs_numpy)
PYTEST_ROWS = tuple(name for name, sealed in ROWS.items() if sealed.is_pytest)
EVERYWHERE: Grammar = {
    symbol: productions
    for part in (WORDS, MOMENTS, ANSWERS, *FAMILIES.values())
    for symbol, productions in part.items()
}


@dataclass(frozen=True, kw_only=True)
class Attack:
    family: str
    moment: str
    row: str
    source: str


def grammar_of(family: str, sealed: SealedRow) -> Grammar:
    """Return the grammar of one family's attacks on one row: what is done, and how such a row is answered."""
    is_of_pytest, is_a_class = family == "collection", family == "dunders"
    kept = "\nglobals().update(locals())" if is_of_pytest else ""  # where pytest looks, wherever it was done
    return {
        **EVERYWHERE,
        "attack": tuple(f"<{family}>{more}{kept}" for more in ("", f"\n<{family}>", "\n<any attack>")),
        "answer": (f"<answer of {sealed.of}>",),
        "decorated answer": (f"<decorated answer of {sealed.of}>",),
        "numbers": ("<parameters>",) if is_of_pytest else ("<few numbers>",),
        "lie": ("<lying object>",) if is_a_class else ("<plain lie>",),
    }


def rows_for(family: str, number: int) -> tuple[str, ...]:
    """Return the names of the rows for a family's next attack: by turns those that it aims at, and all."""
    if family == "dunders" and number % 2:
        return NUMPY_ROWS
    if family == "collection" and number % 4:
        return PYTEST_ROWS
    return tuple(ROWS)


def derived(deriver: Deriver, family: str, number: int) -> Attack:
    row_name = deriver.choose(f"row of {family}", rows_for(family, number))
    # A class has to be there before the answer that makes its objects.
    moments = TIMES[:1] if family == "dunders" else TIMES
    moment = deriver.choose(f"moment of {family}", moments)
    source = deriver.text(grammar_of(family, ROWS[row_name]), moment)
    return Attack(family=family, moment=moment.removeprefix("moment "), row=row_name, source=f"{source}\n")


def attacks_of(count: int, seed: int = SEED) -> Iterator[Attack]:
    """Yield so many distinct attacks, the families by turns; the same ones for the same seed."""
    deriver, families, seen = Deriver(str(seed)), tuple(FAMILIES), set[str]()
    for number in range(count):
        place, family_number = number % len(families), number // len(families)
        attack = derived(deriver, families[place], family_number)
        while attack.source in seen:
            attack = derived(deriver, families[place], family_number)
        seen.add(attack.source)
        yield attack


def grammar_attacks(count: int = COUNT, seed: int = SEED) -> list[Case]:
    return [
        Case(
            name=f"grammar {seed}.{number}: {attack.family}, {attack.moment} [{attack.row}]",
            info=row(ROWS[attack.row].answer),
            text=fenced(attack.source),
            value=0.0,
            needs_numpy=ROWS[attack.row].needs_numpy,
        )
        for number, attack in enumerate(attacks_of(count, seed))
    ]


def sealed_honest() -> list[Case]:
    """Return a right and a wrong honest answer to each row, in turns."""
    return [
        Case(
            name=f"sealed: {'right' if is_right else 'wrong'} [{name}]",
            info=row(sealed.answer),
            text=fenced(sealed.honest(is_right=is_right)),
            value=1.0 if is_right else 0.0,
            needs_numpy=sealed.needs_numpy,
        )
        for name, sealed in ROWS.items()
        for is_right in (True, False)
    ]
