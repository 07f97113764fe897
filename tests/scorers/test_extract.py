"""The answer of a completion: what counts as the response, and which box."""

from __future__ import annotations

import time

import pytest

from scorers.extract import last_box, response_part


@pytest.mark.parametrize(("text", "box"), [
    ("\\boxed{152}", "152"),
    ("so \\boxed{1} and then \\boxed{2}.", "2"),                       # the last one counts
    ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
    ("\\boxed{\\left\\{ 1, 2 \\right.}", "\\left\\{ 1, 2 \\right."),   # an escaped brace is content
    ("\\boxed{a \\\\{b}}", "a \\\\{b}"),                               # a line break and then a group
    ("\\boxed{\n1\n+ 2\n}", "\n1\n+ 2\n"),
    ("\\boxed {5}", "5"),
    ("$$\\boxed{5}$$ (in \\boxed form)", "5"),                         # a mention without a brace is no box
    ("\\boxed{\\boxed{5}}", "5"),
    ("\\boxed{}", ""),
    ("\\boxed{15} and so \\boxed{1", None),                            # cut off while it stated its result
    ("\\boxed{1\\}", None),
    ("\\boxed{1\\", None),
    ("\\boxed 5", None),
    ("boxed{5}", None),
    ("152", None),
    ("", None),
])
def test_the_last_box_is_the_balanced_content_of_the_last_box_opened(text: str, box: str | None) -> None:
    assert last_box(text) == box


@pytest.mark.parametrize(("text", "response"), [
    ("the answer", "the answer"),
    ("<think>hm</think>the answer", "the answer"),
    ("hm</think>the answer", "the answer"),                            # the template put the opening tag in the prompt
    ("<think>a</think>b<think>c</think>d", "d"),
    ("<think>hm \\boxed{5}", None),
    ("<think>a</think>\\boxed{5}<think>wait", None),
    ("a</think>", ""),
    ("", ""),
])
def test_the_response_is_what_follows_the_last_closed_thought(text: str, response: str | None) -> None:
    assert response_part(text) == response


@pytest.mark.parametrize("text", ["\\boxed{" * 100_000, "\\boxed" + " " * 1_000_000, "\\boxed{" + "{" * 1_000_000])
def test_no_text_makes_extraction_slow(text: str) -> None:
    started = time.perf_counter()
    assert last_box(text) is None
    assert time.perf_counter() - started < 5
