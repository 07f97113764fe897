"""Words, sentences and paragraphs, as instructions count them."""

from __future__ import annotations

import pytest

from scorers.instructions.catalogue import checks_of
from scorers.instructions.texts import begins_with, ends_with, paragraphs, sentences, words
from tests.support.text_tables import listed, listed_by_kind

# Texts with a bar where a sentence ends and the next one begins.
SENTENCES = listed(r"""
One. |Two! |Three? |Four¦Dr. Smith met J. Doe vs. Mrs. Roe.¦My answer is no. |He left.
It began at 5 p.m. |He left. |She came at 5 p.m. sharp.¦The U.S. is big. |The U.S. Senate is not.
Tea, coffee, etc. are here, e.g. tea. |Was it I. |Doe?¦It costs 3.50 dollars at www.shop.test/a?b=c. |ok.
1. First item⏎2. Second item. |Done¦"Stop!" he cried. |"Go." |And on¦**Done.** |*Next.* |(Last.)
Well... it went on. |So... |It ended\u2026 yes¦One here.|Two there!|Three¦\u3053\u308c\u3002|\u305d\u308c\uff01
A heading⏎⏎A sentence.¦He got a Ph.D. in law. |She left.¦I live in the U.S.A. |It rains.
100 v.Chr. war Rom klein.¦Los EE.UU. son grandes.¦He has a B.Sc. |The end.
""")


def test_marks_end_sentences_but_not_those_of_abbreviations_numbers_and_lists(
    subtests: pytest.Subtests,
) -> None:
    for text in SENTENCES:
        with subtests.test(text=text):
            assert sentences(text.replace("|", "")) == [sentence.strip() for sentence in text.split("|")]


def test_marks_alone_are_no_sentence() -> None:
    assert sentences("... !!! ***") == sentences("") == []


def test_punctuation_is_no_word(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[str]]] = [
        ("Don't stop: well-known l\u2019eau 3.5", ["Don't", "stop", "well-known", "l\u2019eau", "3.5"]),
        ("1,000 of it", ["1,000", "of", "it"]),
        ("_one_ **two**, \u201cthree\u201d 'four'", ["one", "two", "three", "four"]),
        ("a\u2014b end.Next x/y snake_case", ["a", "b", "end", "Next", "x", "y", "snake_case"]),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948\u0964",
            ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u0948"],
        ),
        ("--- \U0001f600 ...", []),
    ]
    for text, found in cases:
        with subtests.test(text=text):
            assert words(text) == found


# By the number of words that `words` finds; `length_constraints:number_words` counts as many.
ABBREVIATED = listed_by_kind(r"""
# 1
(U.K.)¦Q.E.D.
# 2
i.e. this¦N.A.S.A went¦a.k.a. Bob¦P.S. late¦\u0442.\u0435. \u0442\u0430\u043a¦No. 5¦one. two
# 3
www.shop.test¦A. B. C.
# 4
The U.S.A. is big¦J.R.R. Tolkien wrote it¦los EE.UU. son grandes
# 5
It is 5p.m. or 6a.m.¦In Washington D.C., it rains¦The end.Then it came
# 6
She has a Ph.D. in law¦It is me.I am here
# 7
Tea e.g. at 5 p.m. is nice
# 8
z.B. das, d.h. dies, i.d.R. nie, v.Chr. auch
# 9
He has a B.Sc., an M.Sc. and a Ph.D
""")


def test_an_abbreviation_with_dots_is_one_word(subtests: pytest.Subtests) -> None:
    for text, count in [(text, int(count)) for count, texts in ABBREVIATED.items() for text in texts]:
        with subtests.test(text=text):
            assert len(words(text)) == count
            for number, is_held in ((count, True), (count + 1, False)):
                arguments = {"num_words": number, "relation": "at least"}
                (check,) = checks_of(["length_constraints:number_words"], [arguments]).values()
                assert (check(text) is None) is is_held


def test_instructions_about_words_count_an_abbreviation_once(subtests: pytest.Subtests) -> None:
    for name, arguments, right, wrong in (
        ("count:lowercase_counting", {"N": 2}, "TEA e.g. at NOON", "TEA e.g. at noon"),
        (
            "change_case:capital_word_frequency",
            {"capital_frequency": 2, "capital_relation": "less than"},
            "The U.S.A. is big",
            "The U.S.A. and NASA",
        ),
        ("count:count_unique", {}, "From 5 a.m. to 6 p.m.", "From 5 p.m. to 6 p.m."),
        (
            "keywords:keyword_specific_position",
            {"keyword": "U.S.", "n": 1, "m": 2},
            "The U.S. is big.",
            "The UK is big.",
        ),
    ):
        with subtests.test(name):
            (check,) = checks_of([name], [arguments]).values()
            assert check(right) is None
            assert check(wrong) is not None


def test_blank_lines_separate_paragraphs() -> None:
    assert paragraphs("\n\none\ntwo\n  \n\nthree\n\n") == ["one\ntwo", "three"]


def test_a_text_begins_with_a_word_whatever_marks_it_has(subtests: pytest.Subtests) -> None:
    for text, phrase, is_so in [
        ("Yes, we can.", "yes", True), ('"Yes" we can', "YES", True), ("# yes", "yes", True),
        ("Yesterday", "yes", False), ("In short, no", "in short", True), ("#tag it", "#tag", True),
        ("", "yes", False),
        ("Is it", "yes", False),
    ]:  # fmt: skip
        with subtests.test(text=text, phrase=phrase):
            assert begins_with(text, phrase) is is_so


def test_a_text_ends_with_a_word_whatever_marks_it_has(subtests: pytest.Subtests) -> None:
    for text, phrase, is_so in [
        ("We go home.", "home", True), ('"We go Home!"**', "home", True), ("chrome", "home", False),
        ("home we", "home", False), ("That is all", "is all", True), ("Stra\u00dfe", "STRASSE", True),
    ]:  # fmt: skip
        with subtests.test(text=text, phrase=phrase):
            assert ends_with(text, phrase) is is_so
