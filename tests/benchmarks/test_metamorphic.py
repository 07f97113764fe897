r"""References rewritten: rewrites are what they say, values are computed apart from the scorer, and the bars are bars."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.proofs.metamorphic import numeric, templates
from benchmarks.proofs.metamorphic.__main__ import main
from benchmarks.proofs.metamorphic.certain import is_changed
from benchmarks.proofs.metamorphic.references import NoReference, Reference, only, read
from benchmarks.proofs.metamorphic.rewrites import RIGHT, WRONG
from benchmarks.proofs.metamorphic.scoring import PROBED, Pair, RewriteVerdict, pairs
from benchmarks.proofs.metamorphic.structure import Span, shape_of, statements
from benchmarks.proofs.metamorphic.tally import VerdictTally

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3\\cdot 4", 14),
        ("\\frac12", 0.5),
        ("\\dfrac{3}{4}-1", -0.25),
        ("2^{10}", 1024),
        ("-3^2", -9),
        ("\\sqrt[3]{27}", 3),
        ("\\sqrt 4", 2),
        ("|2-5|", 3),
        ("\\left(1+2\\right)\\left(3+4\\right)", 21),
        ("\\sin\\left(\\frac{\\pi}{2}\\right)", 1),
        ("\\cos^2 60^\\circ", 0.25),
        ("\\log_2 8", 3),
        ("\\ln e", 1),
        ("5!", 120),
        ("\\binom{5}{2}", 10),
        ("1{,}234{,}567", 1234567),
        ("i^2", -1),
    ],
)
def test_an_expression_has_its_value(text: str, value: float) -> None:
    assert numeric.values(text) == pytest.approx([value] * numeric.POINTS)


@pytest.mark.parametrize(
    "text", ["", "x=", "(1,2)", "\\foo x", "1+", "2.5e-10", "\\text{two words!}", "9^{9^9}"]
)
def test_what_is_no_expression_has_no_value(text: str) -> None:
    assert numeric.values(text) is None


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ("(x+1)^2", "x^2+2x+1", False),
        ("\\cos(-2)", "\\cos(2)", False),
        ("x+1", "x+2", True),
        ("x", "y", True),
        ("0\\cdot 5", "0\\cdot 6", False),
        ("x+1", "x=1", None),
    ],
)
def test_two_expressions_differ_where_their_values_do(one: str, other: str, differs: bool | None) -> None:
    assert numeric.differ(one, other) is differs


@pytest.mark.parametrize(
    ("text", "old", "new", "changed"),
    [
        ("x=5", "5", "6", True),
        ("2x=0", "2", "3", False),  # the same statement
        ("2x+1=0", "2", "3", True),
        ("(1,2)", "2", "3", True),
        ("\\{x\\mid x>1\\}", "1", "3", True),
        ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "3", "5", True),
        ("0\\cdot 7", "7", "8", False),
        ("\\sum_{k=1}^{7} c", "7", "8", False),  # whoever can't read it can't be sure
        ("After 3 hours it stops", "3", "4", True),
    ],
)
def test_an_edit_is_wrong_where_a_statement_has_another_value(
    text: str, old: str, new: str, changed: bool
) -> None:
    place = text.index(old)
    assert is_changed(text, Span(place, place + 1), new) is changed


@pytest.mark.parametrize(
    ("text", "parts", "shape"),
    [
        ("x=1, f(0)=3", ["x=1", "f(0)=3"], "list of equations"),
        ("x=1 or x=2", ["x=1", "x=2"], "list of equations"),
        ("x=1\\quad y=2", ["x=1", "y=2"], "list of equations"),
        ("(1,2),(3,4)", ["(1,2)", "(3,4)"], "list of values"),
        ("1,234,567", ["1,234,567"], "integer"),
        ("5\\text{ cm}, 6\\text{ cm}", ["5\\text{ cm}", "6\\text{ cm}"], "list of quantities"),
        ("x=2, 6", ["x=2", "6"], "mixed list"),
        ("[1,2)", ["[1,2)"], "interval or tuple"),
        ("\\{1,2\\}", ["\\{1,2\\}"], "set"),
        ("a<b<c", ["a<b<c"], "inequality"),
        ("S=1+2=3", ["S=1+2=3"], "chain"),
        ("\\approx 5", ["\\approx 5"], "approximation"),
        ("$x^2+1$", ["x^2+1"], "expression"),
        ("30^\\circ", ["30^\\circ"], "quantity"),
        ("concave up on (1,2)", ["concave up on (1,2)"], "prose"),
    ],
)
def test_a_reference_is_taken_apart(text: str, parts: list[str], shape: str) -> None:
    assert [part.of(text) for part in statements(text)] == parts
    assert shape_of(text) == shape


MATRIX = "\\begin{{pmatrix}}{}\\\\{}\\end{{pmatrix}}"
REWRITTEN = [
    ("one number", "x=5", {"x=6", "x=7", "x=8", "x=10", "x=4", "x=3"}), ("one sign", "x-1", {"x+1"}),
    ("one sign", "7", {"-7"}), ("one exponent", "x^2", {"x^{3}"}),
    ("numbers swapped", "\\frac{2}{3}", {"\\frac{3}{2}"}), ("function", "\\sin x", {"\\cos  x"}),
    ("unit", "5\\text{ cm}", {"5\\text{ m}"}), ("item dropped", "1,2", {"1", "2"}),
    ("item repeated", "1,2", {"1,1", "2,2"}), ("first only", "x=1, y=2", {"x=1"}),
    ("last only", "x=1, y=2", {"y=2"}), ("relation turned", "x\\le 3", {"x\\ge 3"}),
    ("strictness", "x\\le 3", {"x< 3"}), ("entries swapped", "(1,2)", {"(2, 1)"}),
    ("values swapped", "x=1, y=2", {"x=2, y=1"}), ("bracket", "[1,\\infty)", {"(1,\\infty)", "[1,\\infty]"}),
    ("ratio", "3:4", {"4:4", "3:5"}),
    ("transposed", MATRIX.format("1&2", "3&4"), {MATRIX.format("1 & 3 ", " 2 & 4")}),
    ("another sign", "(1,2)\\cup(3,4)", {"(1,2)\\cap (3,4)"}), ("opposite", "even", {"odd"}),
    ("set as interval", "\\{1,2\\}", {"[1,2]", "(1,2)", "[1,2)"}), ("reordered", "1,2", {"2,1", None}),
    ("sides swapped", "1<x\\le 2", {"2 \\ge x > 1"}), ("commuted", "x^2+1", {"1+x^2"}),
    ("decimal", "\\frac{3}{4}", {"0.75"}), ("decimal", "-0.5", {"-\\frac{1}{2}", "-\\dfrac{1}{2}"}),
    ("slash", "\\frac{3}{4}", {"3/4"}), ("name dropped", "x=5", {"5"}),
    ("unit dropped", "5\\text{ cm}", {"5"}), ("product sign", "2x", {"2 \\cdot x"}),
    ("digit groups", "1234", {"1,234", "1{,}234", "1,\\!234", "1\\,234", "1,\\! 234"}),
    ("scripts swapped", "x_1^2", {"x^2_1"}), ("program", "2x^{10}", {"2*x**10"}),
    ("style of a relation", "x\\le 1", {"x\\leq 1"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "answers"), REWRITTEN)
def test_a_rewrite_does_what_its_name_says(name: str, text: str, answers: set[str | None]) -> None:
    assert rewritten(name, text) <= answers


def rewritten(name: str, text: str) -> set[str | None]:
    return {(RIGHT | WRONG)[name](text, random.Random(seed)) for seed in range(20)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("last number", "0\\cdot 7"),
        ("one number", "\\sum_{k=1}^{n} c_2"),
        ("one exponent", "x^2=0"),
        ("one exponent", "1^5"),
        ("numbers swapped", "\\frac{3}{3}"),
        ("item dropped", "x=1, \\text{ that is } x=2-1"),
        ("item dropped", "1, 2, \\ldots"),
        ("item dropped", "\\frac12, 0.5"),
        ("entries swapped", "(2,2)"),
        ("values swapped", "x=1, y=1"),
        ("another name", "y=2x"),
        ("variable renamed", "f(x)"),
        ("multiplied", "0"),
        ("strictness", "x=1"),
        ("sides swapped", "f(x)=x^2"),
        ("commuted", "2x"),
        ("decimal", "\\frac{1}{3}"),
        ("name dropped", "2x=10"),
        ("unit dropped", "5\\text{ million}"),
    ],
)
def test_a_rewrite_that_is_not_sure_says_nothing(name: str, text: str) -> None:
    assert rewritten(name, text) == {None}


@pytest.mark.prove
def test_there_are_ten_right_ways_and_fourteen_wrong_ones_and_each_is_known_by_an_example() -> None:
    texts = [text for _, text, _ in REWRITTEN]
    texts += ["12", "x+1", "\\frac12, \\sqrt{2}", "x^2+1=y", "\\frac{1}{2}"]
    tried = ((Reference(text, "here"), seed) for text in texts for seed in range(9))
    found = {pair.rewrite for reference, seed in tried for pair in pairs(reference, seed)}
    assert {*RIGHT, *WRONG} <= found
    assert len(RIGHT) >= 10
    assert len(WRONG) >= 14


def test_an_answer_is_tried_once_and_a_wrong_one_by_both_rules() -> None:
    tried = [*pairs(Reference("x=5", "here", wrong=("x=6",)), 0)]
    assert [pair for pair in tried if pair.answer == "x=6"] == [
        Pair("x=6", "its template's", "math", 0.0),
        Pair("x=6", "its template's", "prime_math", 0.0),
    ]
    assert tried[0].rewrite == PROBED


def test_templates_are_two_hundred_and_each_has_answers_that_differ() -> None:
    found = templates.read()
    assert len(found) >= 200
    assert len({template.reference for template in found}) > 200
    for template in found:
        filled = template.filled(random.Random(0))
        texts = [filled.reference, *filled.right, *filled.wrong]
        assert len({*texts}) == len(texts), filled
        assert filled.wrong, filled


def test_a_template_is_filled_with_ascending_numbers_and_what_they_make() -> None:
    template = templates.Template("kind", "<a><<b>", ("<a*a+b>",), ("<sqrt(a):.1f>",))
    reference, answer = template.filled(random.Random(0))[1:3]
    first, second = map(int, reference.split("<"))
    assert first < second
    assert answer == (str(first * first + second),)


@pytest.mark.parametrize(
    ("rows", "key", "references"),
    [
        ([{"reference": "1"}, {"reference": "1"}, {"reference": "2"}], None, ["1", "2"]),
        ([{"answer": "so. The answer is: 3"}], None, ["3"]),
        ([{"solution": "thus \\boxed{\\frac{1}{2}}."}], None, ["\\frac{1}{2}"]),
        ([{"final_answer": ["$5$"], "answer": "6"}], None, ["$5$"]),
        ([{"answer": 7}], None, ["7"]),
        ([{"mine": "8", "answer": "9"}], "mine", ["8"]),
    ],
)
def test_references_are_found_in_a_file(
    tmp_path: Path, rows: list[dict[str, object]], key: str | None, references: list[str]
) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert [one.text for one in read(file, key)] == references


def test_a_file_without_references_is_refused_by_name_and_keys(tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    file.write_text('[{"text": "1", "solution": "no box"}]')
    with pytest.raises(NoReference, match=r"some\.json: no reference .*it has solution, text"):
        read(file)
    assert main(["--references", str(file)]) == 2


def test_references_are_thinned_evenly_by_kind() -> None:
    found = [Reference(str(number), "file") for number in range(100)] + [Reference("x=1", "file")]
    assert [one.text for one in only(found, ["integer"], 4)] == ["0", "25", "50", "75"]


ONE = Reference("1", "here")


def probed(value: float | None) -> RewriteVerdict:
    return RewriteVerdict(ONE, "integer", Pair("2", "probe", "math", None), value, "can't be parsed")


@pytest.mark.parametrize(
    ("expected", "value", "reason", "is_proven"),
    [
        (0.0, 0.0, "", True),
        (0.0, 1.0, "", False),
        (1.0, 0.0, "", False),
        (0.0, None, "not scored: the child died", False),
        (0.0, None, "the reference can't be parsed", True),
    ],
)
def test_one_wrong_score_of_a_hundred_breaks_the_bar(
    expected: float, value: float | None, reason: str, is_proven: bool
) -> None:
    tally = VerdictTally()
    right = RewriteVerdict(ONE, "integer", Pair("1.0", "spaces", "math", 1.0), 1.0, "")
    for _ in range(99):
        tally.add([probed(0.0), right])
    last = RewriteVerdict(ONE, "integer", Pair("3", "one number", "math", expected), value, reason)
    tally.add([probed(0.0), last])
    assert tally.is_proven() is is_proven
    said = tally.as_table("7", seed=0, took_s=1.0)[-1]
    assert said.startswith("**Proven**" if is_proven else "**NOT proven**")


def test_more_than_one_unscorable_reference_of_fifty_breaks_the_bar_and_nothing_proves_nothing() -> None:
    tally = VerdictTally()
    assert not tally.is_proven()
    for number in range(50):
        tally.add([probed(None if number < 1 else 0.0)])
    assert tally.is_proven()
    tally.add([probed(None)])
    assert not tally.is_proven()
