r"""Forms of one answer: a quantity, an angle, a set, a rule, a congruence, a vector, a list, values with names.

In: a reference and an answer in plain LaTeX (`scorers.math.notation.plain`). Out: whether they are equal. What has one
of these forms is taken apart here, and its parts are compared; what else says more than one value is compared statement
by statement (`scorers.math.relations`). math_verify (`scorers.math.equality`) compares two single values, and nothing
else. What can't be decided is decided by the spelling. Runs in the scoring child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from scorers.math.congruences import classes, read_congruence, with_parameter
from scorers.math.functions import FunctionRule, read_rule, renamed, with_dummy_of
from scorers.math.names import SYMBOL, are_one_name, are_points, is_name, is_quantity, name_key, stated
from scorers.math.notation import layout_key
from scorers.math.relations import StatementComparer
from scorers.math.statements import is_sentence, is_value, read_ratio, read_statements
from scorers.math.symbols import has_other_signs, left_to_do, with_primes
from scorers.math.text import difference, has_percent, left_out, split_outside
from scorers.math.units import DEGREE, RADIAN, Quantity, name_other_things, quantity, with_one_letter
from scorers.math.vectors import read_matrix, read_solutions, read_vector
from scorers.math.words import is_prose, read_choice

_MOST_PARTS: Final = 12  # of a list whose parts are compared one by one
_DEEPEST: Final = 6  # forms within forms
_NAMED: Final = re.compile(rf"({SYMBOL})\s*=\s*([^=<>]+)\Z", re.DOTALL)
_AND: Final = re.compile(r"\\text\{\s*and\s*\}|(?<=\s)and(?=\s)|;")
_GROUP: Final = re.compile(r"(?<![0-9.,_])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])")
_SIGNED: Final = re.compile(r"\\(pm|mp)(?![A-Za-z])")
_MINUS_TUPLE: Final = re.compile(r"-\s*\((.+)\)", re.DOTALL)
_APPROXIMATE: Final = re.compile(
    rf"(?:({SYMBOL})\s*)?(?:\\approx(?![A-Za-z])|\\text\{{\s*(?:approximately|about|approx\.?)\s*\}})\s*(.+)\Z",
    re.DOTALL,
)
_LETTER: Final = re.compile(r"[A-Za-z]")
_COMMAND: Final = re.compile(r"\\[A-Za-z]+")
_MEMBER: Final = re.compile(rf"{SYMBOL}\s*\\in\s*(\\\{{.+\\\}})", re.DOTALL)
_GOES_ON: Final = re.compile(r"\\(?:ldots|bigcup|bigcap)(?![A-Za-z])")
_BUILDER: Final = re.compile(r"\\\{.*(?:\||\\mid(?![A-Za-z])|:).*\\\}", re.DOTALL)
_PERCENT: Final = re.compile(r"\s*\\?%\s*\Z")

Equal = Callable[[str, str], bool]
"""Compares a reference and an answer that have none of these forms."""


class FormComparer:
    """Compares texts by their forms.

    Args:
        equal: compares two single values.
        parses: tells whether a single value can be read.
        same_sets: compares two sets of real numbers; None where the texts are none.
        is_set: tells whether a text is a set of real numbers.
        proportional, about: as `StatementComparer` has them.
    """

    def __init__(
        self,
        *,
        equal: Equal,
        parses: Callable[[str], bool],
        same_sets: Callable[[str, str], bool | None],
        is_set: Callable[[str], bool],
        proportional: Callable[[tuple[str, ...], tuple[str, ...]], int],
        about: Equal,
    ) -> None:
        self._equal_values = equal
        self._parses = parses
        self._same_sets = same_sets
        self._is_set = is_set
        self._statements = StatementComparer(
            same=self.same, equal=self._equal, proportional=proportional, about=about
        )

    def same(self, reference: str, answer: str, *, depth: int = 0) -> bool:
        """Return whether two boxes are equal."""
        reference, answer = with_primes(reference, answer)
        if not depth:
            reference, answer = _without_groups(_only_member(reference), _only_member(answer))
        if depth > _DEEPEST or layout_key(reference) == layout_key(answer) != "":
            return depth <= _DEEPEST
        for look in (
            self._as_congruences,
            self._as_approximate,
            self._as_choices,
            self._as_ratios,
            self._by_unit,
            self._as_sets,
            self._as_rules,
            self._as_named_values,
            self._as_named_quantity,
        ):
            if (is_same := look(reference, answer, depth)) is not None:
                return is_same
        if any(
            look(reference, answer, depth)
            for look in (
                self._as_stated,
                self._as_percentage,
                self._as_vectors,
                self._as_solutions,
                self._as_lists,
                self._as_matrices,
            )
        ):
            return True
        if is_value(reference) and is_value(answer):
            names = stated(reference)[0], stated(answer)[0]  # of points, as in `A(1, 2)`
            if all(names) and not are_one_name(*names):
                return False
            return not name_other_things(reference, answer) and self._equal(
                quantity(reference).value, quantity(answer).value
            )
        return self._statements.same(reference, answer, depth=depth)

    def _equal(self, reference: str, answer: str) -> bool:
        """Compare two single values. What is more than that is not equal here, nor is what has another remark."""
        return (
            is_value(reference)
            and is_value(answer)
            and left_out(reference) == left_out(answer)
            and not name_other_things(reference, answer)
            and difference(answer, reference) is None
            and not left_to_do(answer, reference)
            and not has_other_signs(reference, answer)
            and self._equal_values(reference, answer)
        )

    def reads(self, reference: str, *, depth: int = 0) -> bool:
        """Return whether a reference has a form that needs no other reader, or its parts have."""
        if read_rule(reference) is not None or read_congruence(reference) is not None:
            return True
        if is_sentence(reference):
            return True  # decided by its words
        if is_prose(reference) or self._is_set(reference) or read_ratio(reference) is not None:
            return True
        if _BUILDER.fullmatch(reference) or _GOES_ON.search(reference):
            return True  # decided by its spelling
        solutions = read_solutions(reference) if "=" in reference or "\\in" in reference else None
        if solutions is not None and solutions.names:
            return True
        sides = _sides(reference)
        return (
            sides != [reference]
            and depth < _DEEPEST
            and all(self._is_read(part, depth + 1) for part in sides)
        )

    def _is_read(self, side: str, depth: int) -> bool:
        if is_name(side) or is_prose(side):
            return True
        return self._parses(core(side)) if is_value(side) else self.reads(side, depth=depth)

    def _as_congruences(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare residues of one modulus; a bare residue answers a congruence, as it stands."""
        wanted, given = read_congruence(reference), read_congruence(answer)
        if wanted is None and given is not None and given.name:
            wanted = with_parameter(reference)
        elif given is None and wanted is not None and wanted.name:
            given = with_parameter(answer)
        if wanted is None:
            return None
        if given is None:
            values = [answer] if "=" not in answer and "mod" not in answer else []
            values = values if len(wanted.residues) == 1 else _alternatives(answer) or []
            return len(values) == len(wanted.residues) and self._match(wanted.residues, values, depth)
        if wanted.modulus != given.modulus or (wanted.name and given.name and wanted.name != given.name):
            return False
        if len(wanted.residues) != len(given.residues):
            return False
        ours, theirs = classes(wanted), classes(given)
        if ours is not None and theirs is not None:
            return ours == theirs
        return self._match(wanted.residues, given.residues, depth)

    def _as_approximate(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare the value of a reference that is called approximate."""
        if (wanted := _APPROXIMATE.match(reference)) is None:
            return None
        given = _APPROXIMATE.match(answer) or _NAMED.match(answer)
        name, value = ("", answer) if given is None else (given[1] or "", given[2])
        if "\\approx" in value:
            return False  # a second value
        if wanted[1] and name and layout_key(wanted[1]) != layout_key(name):
            return False
        return self.same(wanted[2].strip(), value.strip(), depth=depth + 1)

    def _as_choices(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare the values beside one letter; letters alone have been compared before."""
        wanted, given = read_choice(reference), read_choice(answer)
        if wanted is None or given is None or wanted.letters != given.letters:
            return None
        return self.same(wanted.value, given.value, depth=depth + 1) if wanted.value and given.value else None

    def _as_ratios(self, reference: str, answer: str, depth: int) -> bool | None:
        return self._statements.same_ratios(reference, answer, depth=depth)

    def _by_unit(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare two quantities: a unit on one side alone is let go, but for degrees against multiples of pi."""
        wanted, given = with_one_letter(quantity(reference), quantity(answer))
        units = {wanted.unit, given.unit}
        if None in units:
            return (
                self._as_angles(wanted, given) if units == {DEGREE, None} else self._as_counts(wanted, given)
            )
        if units == {DEGREE, RADIAN}:
            degrees, radians = (wanted, given) if wanted.unit == DEGREE else (given, wanted)
            return self._equal(_in_radians(degrees.value), radians.value)
        if wanted.unit is None or given.unit is None or not wanted.unit.measures(given.unit):
            return False
        ratio = given.unit.size / wanted.unit.size if given.unit.dimensions == wanted.unit.dimensions else 1
        if ratio == 1:
            return self.same(wanted.value, given.value, depth=depth + 1)
        return self._equal(
            wanted.value, f"({given.value})\\cdot\\frac{{{ratio.numerator}}}{{{ratio.denominator}}}"
        )

    def _as_counts(self, wanted: Quantity, given: Quantity) -> bool | None:
        r"""Compare with a number that a word scales: `7\text{ dozen}` is 84."""
        if not any(one.unit is not None and one.unit.is_count for one in (wanted, given)):
            return None
        return self._equal(*(one.value if one.unit is None else one.counted for one in (wanted, given)))

    def _as_angles(self, wanted: Quantity, given: Quantity) -> bool | None:
        degrees, bare = (wanted, given) if wanted.unit == DEGREE else (given, wanted)
        if (
            "\\pi" not in bare.value
            or "\\pi" in degrees.value
            or split_outside(bare.value, ",") != [bare.value]
        ):
            return None
        named = _NAMED.match(degrees.value)
        value = degrees.value if named is None else named[2]
        bare_named = _NAMED.match(bare.value)
        return self._equal(_in_radians(value), bare.value if bare_named is None else bare_named[2])

    def _as_sets(self, reference: str, answer: str, _depth: int) -> bool | None:
        return self._same_sets(reference, answer)

    def _as_rules(self, reference: str, answer: str, depth: int) -> bool | None:
        wanted, given = read_rule(reference), read_rule(answer)
        if (
            wanted is not None
            and given is not None
            and (wanted.name == given.name or "" in (wanted.name, given.name))
        ):
            body = renamed(given, wanted.variables)
            is_same = body is not None and self.same(wanted.body, body, depth=depth + 1)
            return None if not is_same and wanted.is_sequence and given.is_sequence else is_same
        if _is_arrow(wanted) != _is_arrow(given) and (wanted is None or given is None):
            return self.same(
                reference if wanted is None else wanted.body,
                answer if given is None else given.body,
                depth=depth + 1,
            )
        other = with_dummy_of(reference, answer)
        return None if other is None else self.same(reference, other, depth=depth + 1)

    def _as_named_values(self, reference: str, answer: str, depth: int) -> bool | None:
        """Compare `x = 1, y = 2` with a bare list or tuple: in the reference's order, or in that of the alphabet."""
        wanted, given = _named_values(reference), _named_values(answer)
        if (wanted is None) == (given is None):
            return None
        other = answer if given is None else reference
        if other[:1] + other[-1:] in ("[)", "(]"):
            return None  # an interval
        if wanted is not None:
            values, others = list(wanted.values()), _parts(answer)
        else:
            values, others = [value for _, value in sorted((given or {}).items())], _parts(reference)
        if others is None or len(values) != len(others) or any("=" in one for one in others):
            return None
        pairs = zip(values, others, strict=True) if wanted is not None else zip(others, values, strict=True)
        return all(self.same(one, other, depth=depth + 1) for one, other in pairs)

    def _as_named_quantity(self, reference: str, answer: str, depth: int) -> bool | None:
        r"""Compare the value of a reference that names it with an argument: `f(2) = 9`, `\det A = 9`.

        Another name, as `f(9)` for `f(2)`, is another quantity; no name is needed.
        """
        name, wanted = stated(reference)
        if not is_quantity(name):
            return None
        head, equals, value = answer.partition("=")
        if (named := stated(answer))[0]:
            head, value = named
        if equals and not is_name(head.strip()):
            return None
        if not equals:
            return self.same(wanted, answer, depth=depth + 1)
        is_graph = head.strip() == "y" and read_rule(reference) is not None
        if not is_graph and not are_one_name(name, head.strip(), equal=self._equal):
            return False
        if name_key(head) in name_key(value) or split_outside(value, ",") is None:
            return False  # a second statement
        return self.same(wanted, value.strip(), depth=depth + 1)

    def _as_stated(self, reference: str, answer: str, depth: int) -> bool:
        r"""Compare the right side of an equation that only names its value: `S = 5`, `\det A = 5`, `A(2, 3)`."""
        wanted, given = stated(reference), stated(answer)
        if (
            (member := _MEMBER.fullmatch(reference)) is not None
            and "=" not in answer
            and "\\in" not in answer
        ):
            return self.same(member[1], answer, depth=depth + 1)
        if wanted == ("", reference) and given == ("", answer):
            return False
        if wanted[0] and given[0] and not are_one_name(wanted[0], given[0]):
            return False
        if given[0] and not wanted[0] and "=" in reference:
            return False  # `f(1) = 2, 3` for `f(1) = 2, f(2) = 3`
        head, equals, _ = answer.partition("=")
        if wanted[0] and equals and not given[0] and not is_name(head.strip()):
            return False  # `2x+1 = 2x+1` for `y = 2x+1`: an equation, and no name of its right side
        return self.same(wanted[1], given[1], depth=depth + 1)

    def _as_percentage(self, reference: str, answer: str, depth: int) -> bool:
        """Compare with a percentage: another one, the number of percents, or the share."""
        if not _PERCENT.search(reference):
            return False
        wanted = _PERCENT.sub("", reference)
        if _PERCENT.search(answer):
            return self.same(wanted, _PERCENT.sub("", answer), depth=depth + 1)
        if has_percent(answer):
            return False
        return self._equal(wanted, answer) or self._equal(wanted, f"({answer})\\cdot 100")

    def _as_vectors(self, reference: str, answer: str, depth: int) -> bool:
        """Compare a row or a column with a tuple of as many parts; a row is no column."""
        if "\\begin" not in reference and "\\begin" not in answer:
            return False
        wanted, given = read_vector(reference), read_vector(answer)
        if wanted is None or given is None or not {wanted.shape, given.shape} - {""}:
            return False
        if wanted.shape and given.shape and wanted.shape != given.shape:
            return False
        return self._in_order(wanted.parts, given.parts, depth)

    def _as_solutions(self, reference: str, answer: str, depth: int) -> bool:
        """Compare several tuples of values in any order, where one side names the values."""
        if "=" not in reference + answer and "\\in" not in reference + answer:
            return False
        wanted, given = read_solutions(reference), read_solutions(answer)
        if wanted is None or given is None or not (wanted.names or given.names):
            return False
        if wanted.names and given.names and set(wanted.names) != set(given.names):
            return False
        order = wanted.names or tuple(sorted(given.names))
        ours, theirs = wanted.in_order(order), given.in_order(order)
        return len(ours) == len(theirs) and self._match(ours, theirs, depth)

    def _same_part(self, wanted: str, given: str, depth: int) -> bool:
        """Compare two parts of lists, which the words behind their values tell apart, too."""
        return not name_other_things(wanted, given) and self.same(wanted, given, depth=depth + 1)

    def _in_order(self, wanted: Sequence[str], given: Sequence[str], depth: int) -> bool:
        return len(wanted) == len(given) and all(
            self.same(one, other, depth=depth + 1) for one, other in zip(wanted, given, strict=True)
        )

    def _as_lists(self, reference: str, answer: str, depth: int) -> bool:
        """Compare part by part: in order within brackets, else in any order, plus and minus as two parts."""
        wanted, given = _alternatives(reference), _alternatives(answer)
        if any("=" in part for part in (*(wanted or ()), *(given or ()))):
            return False  # which statements are compared by
        names = _NAMED.match(reference), _NAMED.match(answer)
        if names[0] and names[1] and not are_one_name(names[0][1], names[1][1]):
            return False  # `m = 1, 2` for `n = 1, 2`
        if wanted is not None and given is not None and len(wanted) == len(given):
            if are_points(wanted) != are_points(given):
                return self._in_order(wanted, given, depth)  # in the order of their names
            return self._match(wanted, given, depth)
        ours, theirs = _parts(reference), _parts(answer)
        if ours is None or theirs is None or reference[:1] + reference[-1:] != answer[:1] + answer[-1:]:
            return False
        return self._in_order(ours, theirs, depth)

    def _as_matrices(self, reference: str, answer: str, depth: int) -> bool:
        """Compare two matrices cell by cell; a determinant is none."""
        wanted, given = read_matrix(reference), read_matrix(answer)
        if wanted is None or given is None or list(map(len, wanted)) != list(map(len, given)):
            return False
        return all(self._in_order(*rows, depth) for rows in zip(wanted, given, strict=True))

    def _match(self, wanted: Sequence[str], given: Sequence[str], depth: int) -> bool:
        """Return whether each wanted part has one of its own among the given ones."""
        left = list(given)
        for one in wanted:
            found = next((other for other in left if self._same_part(one, other, depth)), None)
            if found is None:
                return False
            left.remove(found)
        return True


def core(reference: str) -> str:
    """Return the part of a reference that has to be parsed: its value without name, unit, percent, one of two signs."""
    named, value = stated(reference)
    reference = value if is_quantity(named) else reference
    if (approximate := _APPROXIMATE.match(reference)) is not None:
        reference = approximate[2]
    text = _PERCENT.sub("", quantity(reference).value)
    return _SIGNED.sub("+", text).removeprefix("+") if _alternatives(text) else text


def _in_radians(degrees: str) -> str:
    return f"({degrees})\\cdot\\frac{{\\pi}}{{180}}"


def _is_arrow(rule: FunctionRule | None) -> bool:
    return rule is not None and not rule.name


def _named_values(text: str) -> dict[str, str] | None:
    """Return values by their names, at least two of them; None where a text is anything else."""
    parts = [part for piece in _AND.split(text) for part in split_outside(piece, ",") or [""]]
    found = [_NAMED.match(part.strip()) for part in parts if part.strip()]
    named = {one[1]: one[2].strip() for one in found if one is not None}
    return named if 2 <= len(named) == len(found) <= _MOST_PARTS else None


def _without_groups(one: str, other: str) -> tuple[str, str]:
    r"""Return two texts without digit groups, `12,345\pi`, where only one has commas and the other is a value.

    In brackets and in an index a comma may part two numbers.
    """
    if ("," in one) == ("," in other) or any(sign in one + other for sign in ("(", "[", "\\{", "_")):
        return one, other
    joined, bare = (_GROUP.sub(lambda group: group[0].replace(",", ""), text) for text in (one, other))
    single = other if "," in one else one
    return (joined, bare) if is_value(single) and "," not in joined + bare else (one, other)


def _only_member(text: str) -> str:
    r"""Return the value in `\{3\}` or `(3)`; any other text as it is."""
    if (
        text.startswith("(")
        and text.endswith(")")
        and "," not in text
        and is_value(text)
        and is_value(text[1:-1])
    ):
        return text[1:-1].strip()
    inner = text[2:-2].strip() if text.startswith("\\{") and text.endswith("\\}") else ""
    is_number = inner and "\\emptyset" not in inner and _LETTER.search(_COMMAND.sub("", inner)) is None
    return inner if is_number and is_value(inner) else text


def _sides(text: str) -> list[str]:
    """Return what a text's statements, lists and brackets are made of; the whole text where it is none of these."""
    sides = [
        side for statement in read_statements(text, is_flat=True).parts for side in statement.sides if side
    ]
    if sides != [text]:
        return sides
    matrix = read_matrix(text)
    inner = _parts(text) if matrix is None else [cell for row in matrix for cell in row]
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = split_outside(text[2:-2], ",")
    return inner or [text]


def _parts(text: str) -> list[str] | None:
    """Return the parts of a list or a tuple, two at least; None where a text is anything else."""
    opening, closing = text[:1], text[-1:]
    is_tuple = opening in ("(", "[") and closing in (")", "]")
    inner = text[1:-1] if is_tuple else text
    parts = split_outside(inner, ",")
    if (parts is None or len(parts) < 2) and not is_tuple:
        parts = [part.strip() for part in _AND.split(text)]
    return parts if parts is not None and 2 <= len(parts) <= _MOST_PARTS and all(parts) else None


def _alternatives(text: str) -> list[str] | None:
    r"""Return the values of a list without an order, a set, or of `2 \pm \sqrt{3}`; None of all else."""
    if (named := _NAMED.match(text)) is not None:
        text = named[2].strip()
    if text.startswith("\\{") and text.endswith("\\}"):
        text = text[2:-2].strip()
    elif text[:1] in ("(", "[") and text[-1:] in (")", "]") and split_outside(text[1:-1], ",") is not None:
        return None
    parts = split_outside(text, ",") or []
    found = [value for part in parts for value in (_of_signs(part) if _SIGNED.search(part) else [part])]
    return found if 2 <= len(found) <= _MOST_PARTS and all(found) else None


def _of_signs(text: str) -> list[str]:
    """Return both values of a text with plus and minus; all its signs turn together."""

    def with_signs(upper: str, lower: str) -> str:
        return _SIGNED.sub(lambda sign: upper if sign[1] == "pm" else lower, text).strip().removeprefix("+")

    return [_turned(with_signs("+", "-")), _turned(with_signs("-", "+"))]


def _turned(text: str) -> str:
    """Return `-(1, 1)` as `(-(1), -(1))`; another text as it is."""
    found = _MINUS_TUPLE.fullmatch(text)
    parts = None if found is None else split_outside(found[1], ",")
    return f"({', '.join(f'-({part})' for part in parts)})" if parts is not None and len(parts) > 1 else text
