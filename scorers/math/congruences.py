r"""Congruences: `x \equiv 1, 4 \pmod{5}`, whatever the modulus is written with.

In: a text in plain LaTeX (`scorers.math.notation.plain`). Out: what is congruent to which residues, and the modulus.
Pure functions on text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from scorers.math.notation import layout_key
from scorers.math.text import is_integer, split_outside

_WORD: Final = re.compile(r"\\(?:text|mathrm|operatorname)\s*\{([^{}]*mod[^{}]*)\}")
_MODULUS: Final = re.compile(
    r"\s*\(?\s*(\\[pb]?mod(?![A-Za-z])|(?<![A-Za-z\\])mod(?:ulo)?(?![A-Za-z]))\s*\(?\s*"
    r"(?:\{\s*([^{}]{1,60})\s*\}|([0-9]{1,60}|[A-Za-z](?:\^[0-9A-Za-z])?))\s*\)*\s*\Z"
)
_JOINT: Final = re.compile(r"\\text\{\s*(?:or|and)\s*\}|\\lor(?![A-Za-z])|(?<=\s)(?:or|and)(?=\s)|;")
_SIDES: Final = re.compile(r"\\equiv(?![A-Za-z])|=")
_OTHER_RELATION: Final = re.compile(r"\\(?:not|ne|le|ge|in|to|approx)(?![A-Za-z])|[<>]")
_PARAMETER: Final = re.compile(  # `x = 5k + 3, k \in \mathbb{Z}`
    r"(?:([A-Za-z])\s*=\s*)?(?:([0-9]{1,60})\s*(?:\\cdot\s*)?([A-Za-z])(?:\s*([-+]\s*[0-9]{1,60}))?"
    r"|(-?[0-9]{1,60})\s*\+\s*([0-9]{1,60})\s*(?:\\cdot\s*)?([A-Za-z]))\s*,?\s*(?:\\text\{\s*(?:where|for|with)?\s*\})?"
    r"\s*\(?\s*([A-Za-z])\s*\\in(?![A-Za-z])\s*\\mathbb\{Z\}\s*\)?"
)
_INTEGERS: Final = re.compile(  # `n = 6k \pm 1`
    r"([A-Za-z])\s*=\s*([0-9]{1,60})\s*(?:\\cdot\s*)?([j-nqst])(?:\s*(\\pm(?![A-Za-z])|[-+])\s*([0-9]{1,60}))?"
    r"(?:\s*,?\s*\(?\s*([j-nqst])\s*\\in(?![A-Za-z])\s*\\mathbb\{Z\}\s*\)?)?"
)
_BOTH_SIGNS: Final = re.compile(r"\\pm(?![A-Za-z])\s*(.+)", re.DOTALL)


class Congruence(NamedTuple):
    """Residues of one modulus, as text; the name is that of what is congruent to them, "" where there is none."""

    name: str
    residues: tuple[str, ...]
    modulus: str


def read_congruence(text: str) -> Congruence | None:
    """Return the congruence that a text states, with several residues for alternatives; None where it states none."""
    if "mod" not in text:
        return _with_parameter(text) if "\\mathbb" in text else None
    if _OTHER_RELATION.search(text):
        return None
    text = _WORD.sub(r"\1", text)
    pieces = [part for piece in _JOINT.split(text) for part in split_outside(piece, ",") or [""]]
    names, moduli, residues = set(), set(), []
    is_operation = False
    for piece in pieces:
        found = _MODULUS.search(piece)
        if found is not None:
            moduli.add(layout_key(found[2] or found[3]))
            is_operation |= found[1] == "\\bmod"
        relation = piece if found is None else piece[: found.start()]
        sides = [side.strip() for side in _SIDES.split(relation)]
        if len(sides) > 2 or not all(sides):
            return None
        names |= {layout_key(side) for side in sides[:-1]}
        both = _BOTH_SIGNS.fullmatch(sides[-1])
        residues += [sides[-1]] if both is None else [both[1], f"-{both[1]}"]
    if len(moduli) != 1 or len(names) > 1 or found is None:
        return None
    congruence = Congruence(next(iter(names), ""), tuple(residues), moduli.pop())
    return congruence if _is_meant(congruence, is_operation=is_operation) else None


def _with_parameter(text: str) -> Congruence | None:
    r"""Return what `x = 5k + 3, k \in \mathbb{Z}` states; None of any other text."""
    found = _PARAMETER.fullmatch(text)
    if found is None or found[8] != (found[3] or found[7]) or found[8] == found[1]:
        return None
    modulus = found[2] or found[6]
    residue = (found[4] or found[5] or "0").replace(" ", "").lstrip("+")
    congruence = Congruence(found[1] or "", (residue,), modulus)
    return congruence if is_integer(modulus) and int(modulus) > 1 else None


def with_parameter(text: str) -> Congruence | None:
    r"""Return what `n = 6k \pm 1` states beside a congruence, where k can only be any integer; None of other texts."""
    found = _INTEGERS.fullmatch(text)
    if found is None or found[3] == found[1] or found[6] not in (None, found[3]) or int(found[2]) < 2:
        return None
    residue = found[5] or "0"
    signs = {None: ("",), "+": ("",), "-": ("-",)}.get(found[4], ("", "-"))
    return Congruence(found[1], tuple(f"{sign}{residue}" for sign in signs), found[2])


def _is_meant(congruence: Congruence, *, is_operation: bool) -> bool:
    r"""Return whether a text means residues: `17 \bmod 5` alone is a computation, and modulo 1 all is one."""
    if is_integer(congruence.modulus) and int(congruence.modulus) < 2:
        return False
    if congruence.name:
        return "mod" not in congruence.name and _holds(congruence)
    if not all(map(is_integer, congruence.residues)):
        return False
    return (
        not is_operation
        or not is_integer(congruence.modulus)
        or classes(congruence) == {*map(int, congruence.residues)}
    )


def _holds(congruence: Congruence) -> bool:
    """Return whether a congruence of two integers is true; one of anything else may be."""
    if not is_integer(congruence.name) or (ours := classes(congruence)) is None:
        return True
    return ours == {int(congruence.name) % int(congruence.modulus)}


def classes(congruence: Congruence) -> set[int] | None:
    """Return the least residues of a congruence of integers; None of another one."""
    if not all(map(is_integer, (*congruence.residues, congruence.modulus))):
        return None
    return {int(residue) % int(congruence.modulus) for residue in congruence.residues}
