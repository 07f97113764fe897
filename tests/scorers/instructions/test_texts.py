"""Words, sentences and paragraphs, as instructions count them."""

from __future__ import annotations

import pytest

from scorers.instructions.texts import begins_with, ends_with, paragraphs, sentences, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met J. Doe vs. Mrs. Roe.", ["Dr. Smith met J. Doe vs. Mrs. Roe."]),
        (
            "It began at 5 p.m. He left. She came at 5 p.m. sharp.",
            ["It began at 5 p.m.", "He left.", "She came at 5 p.m. sharp."],
        ),
        ("The U.S. is big. The U.S. Senate is not.", ["The U.S. is big.", "The U.S. Senate is not."]),
        (
            "Tea, coffee, etc. are here, e.g. tea. Was it I. Doe?",
            ["Tea, coffee, etc. are here, e.g. tea.", "Was it I.", "Doe?"],
        ),
        (
            "It costs 3.50 dollars at www.shop.test/a?b=c. ok.",
            ["It costs 3.50 dollars at www.shop.test/a?b=c.", "ok."],
        ),
        ("1. First item\n2. Second item. Done", ["1. First item\n2. Second item.", "Done"]),
        ("My answer is no. He left.", ["My answer is no.", "He left."]),
        ('"Stop!" he cried. "Go." And on', ['"Stop!" he cried.', '"Go."', "And on"]),
        (
            "Well... it went on. So... It ended\u2026 yes",
            ["Well... it went on.", "So...", "It ended\u2026 yes"],
        ),
        ("**Done.** *Next.* (Last.)", ["**Done.**", "*Next.*", "(Last.)"]),
        ("One here.Two there!Three", ["One here.", "Two there!", "Three"]),
        ("\u3053\u308c\u3002\u305d\u308c\uff01", ["\u3053\u308c\u3002", "\u305d\u308c\uff01"]),
        ("A heading\n\nA sentence.", ["A heading\n\nA sentence."]),
        ("... !!! ***", []),
        ("", []),
    ],
)
def test_marks_end_sentences_but_not_those_of_abbreviations_numbers_and_lists(
    text: str, found: list[str]
) -> None:
    assert sentences(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Don't stop: well-known l\u2019eau 3.5 1,000",
            ["Don't", "stop", "well-known", "l\u2019eau", "3.5", "1,000"],
        ),
        ("_one_ **two**, \u201cthree\u201d 'four'", ["one", "two", "three", "four"]),
        ("a\u2014b end.Next x/y snake_case", ["a", "b", "end", "Next", "x", "y", "snake_case"]),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948\u0964",
            ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u0948"],
        ),
        ("--- \U0001f600 ...", []),
    ],
)
def test_punctuation_is_no_word(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_blank_lines_separate_paragraphs() -> None:
    assert paragraphs("\n\none\ntwo\n  \n\nthree\n\n") == ["one\ntwo", "three"]


@pytest.mark.parametrize(
    ("text", "phrase", "is_so"),
    [
        ("Yes, we can.", "yes", True),
        ('"Yes" we can', "YES", True),
        ("# yes", "yes", True),
        ("Yesterday", "yes", False),
        ("In short, no", "in short", True),
        ("#tag it", "#tag", True),
        ("", "yes", False),
        ("Is it", "yes", False),
    ],
)
def test_a_text_begins_with_a_word_whatever_marks_it_has(text: str, phrase: str, is_so: bool) -> None:
    assert begins_with(text, phrase) is is_so


@pytest.mark.parametrize(
    ("text", "phrase", "is_so"),
    [
        ("We go home.", "home", True),
        ('"We go Home!"**', "home", True),
        ("chrome", "home", False),
        ("home we", "home", False),
        ("That is all", "is all", True),
        ("Stra\u00dfe", "STRASSE", True),
    ],
)
def test_a_text_ends_with_a_word_whatever_marks_it_has(text: str, phrase: str, is_so: bool) -> None:
    assert ends_with(text, phrase) is is_so
