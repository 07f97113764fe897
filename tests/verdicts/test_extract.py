"""The answer of a completion: what counts as the response, which box, which block, which tag."""

from __future__ import annotations

from pathlib import Path

import pytest

import scorers
import verdicts
from tests.support.growth import is_linear
from verdicts.extract import (
    END_MARKS,
    MAX_RESPONSE_CHARS,
    Block,
    Unanswered,
    answering_part,
    closed_part,
    fenced_blocks,
    last_answer,
    last_block,
    last_box,
    response_part,
    within,
)

pytestmark = pytest.mark.prove(after=3)


def test_the_last_box_is_the_balanced_content_of_the_last_box_opened(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str | None]] = [
        ("\\boxed{152}", "152"),
        ("so \\boxed{1} and then \\boxed{2}.", "2"),  # the last one counts
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{\\left\\{ 1, 2 \\right.}", "\\left\\{ 1, 2 \\right."),  # an escaped brace is content
        ("\\boxed{a \\\\{b}}", "a \\\\{b}"),  # a line break and then a group
        ("\\boxed{\n1\n+ 2\n}", "\n1\n+ 2\n"),
        ("\\boxed {5}", "5"),
        ("$$\\boxed{5}$$ (in \\boxed form)", "5"),  # a mention without a brace is no box
        ("\\boxed{\\boxed{5}}", "5"),
        ("\\boxed{}", ""),
        ("\\boxed{15} and so \\boxed{1", None),  # cut off while it stated its result
        ("\\boxed{1\\}", None), ("\\boxed{1\\", None), ("\\boxed 5", None), ("boxed{5}", None),
        ("152", None),
        ("", None),
    ]  # fmt: skip
    for text, box in cases:
        with subtests.test(text=text):
            assert last_box(text) == box


def test_the_response_is_what_follows_the_last_closed_thought(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str | None]] = [
        ("the answer", "the answer"),
        ("<think>hm</think>the answer", "the answer"),
        ("hm</think>the answer", "the answer"),  # the template put the opening tag in the prompt
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>hm \\boxed{5}", None),
        ("<think>a</think>\\boxed{5}<think>wait", None), ("a</think>", ""), ("", ""),
        ("said <|im_start|>assistant\n5", "said <|im_start|>assistant\n5"),  # no marker: nothing is erased
    ]  # fmt: skip
    for text, response in cases:
        with subtests.test(text=text):
            assert response_part(text) == response


def test_the_marks_of_a_turns_end_are_no_part_of_the_response(subtests: pytest.Subtests) -> None:
    for mark in END_MARKS:
        with subtests.test(mark=mark):
            assert response_part(f"<think>a</think>\n5 {mark}") == "\n5 "
            assert response_part(f"5{mark}\n{mark}\n") == "5"
            assert response_part(f"5 {mark} 6") == f"5 {mark} 6"  # one within is text
            assert response_part(f"<think>5{mark}") is None


def test_a_completion_that_does_not_answer_says_why() -> None:
    longest = "x" * MAX_RESPONSE_CHARS
    assert answering_part(f"<think>{longest}</think>{longest}") == closed_part(longest) == longest
    assert closed_part(longest + "x") == longest + "x"
    assert within("12345", 5) == "12345"
    with pytest.raises(Unanswered, match=r"^a response of 1000001 characters; 1000000 is the limit$"):
        answering_part(longest + "x")
    with pytest.raises(Unanswered, match=r"^an answer of 6 characters; 5 is the limit$"):
        within("123456", 5)
    for part in (answering_part, closed_part):
        with pytest.raises(Unanswered, match=r"^the thinking was never closed$"):
            part("5 <think>")


def test_no_scorer_has_words_of_its_own_for_it() -> None:
    own = {
        path.name: path.read_text(encoding="utf-8")
        for package in (scorers, verdicts)
        for path in Path(package.__path__[0]).rglob("*.py")
    }
    for words in ("thinking was never closed", "characters; {max_chars} is the limit"):
        assert [name for name, text in own.items() if words in text] == ["extract.py"]
    assert [name for name, text in own.items() if "{MAX_RESPONSE_CHARS} is the limit" in text] == []


def test_the_last_answer_is_the_content_of_the_last_closed_tag(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str | None]] = [
        ("<answer> 5\n6 </answer>", "5\n6"),
        ("<answer>5</answer> or <answer>6</answer>", "6"),
        ("<answer>5</answer>, as I put into <answer>", "5"),  # a mention
        ("<answer>5<answer>6</answer></answer>", "6"), ("<answer></answer>", ""), ("<answer>5", None),
        ("5</answer>", None), ("</answer><answer>", None), ("", None),
    ]  # fmt: skip
    for text, answer in cases:
        with subtests.test(text=text):
            assert last_answer(text) == answer


def test_fenced_blocks_are_those_that_are_closed(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[tuple[str, str]]]] = [
        ("```python\nx\n```", [("python", "x")]),
        ("so\n\n~~~\nx\n\ny\n~~~~\n", [("", "x\n\ny")]),
        ("```\n```", [("", "")]),
        ("```python\r\nx\r\ny\r\n```\r\n", [("python", "x\r\ny")]),
        ("``` Python  title=a.py \nx\n```  ", [("python", "x")]),
        ("```{.python .numberLines}\nx\n```", [("python", "x")]),
        ("```a\n1\n```\n```b\n2\n```", [("a", "1"), ("b", "2")]),
        # A longer fence holds shorter ones.
        ("````md\n```python\nx\n```\n````", [("md", "```python\nx\n```")]),
        ("~~~md\n```\n~~~", [("md", "```")]),
        # An indented example.
        ("```python\ns = '''\n    ```\n    '''\n```", [("python", "s = '''\n    ```\n    '''")]),
        ("1. thus:\n   ```python\n   if a:\n       b\n   ```", [("python", "if a:\n    b")]),  # in a list
        ("```python\nx", []),  # never closed
        ("```python\n1\n```\n```python\n2", [("python", "1")]),
        ("```python\n1\n\n```python\n2\n```", [("python", "2")]),  # begun anew
        ("```md\n```python\nx\n```\n```", [("python", "x")]),
        ("```python\nprint(1)```", [("python", "print(1)")]),  # the fence glued to the code
        ("```python\n1```\nand\n```python\n2\n```", [("python", "1"), ("python", "2")]),
        ("```python\ns = 1  # ends with ```\nt = 2\n```", [("python", "s = 1  # ends with ```\nt = 2")]),
        ("use ```x``` and\n```python x```\n```python\nx\n```", [("python", "x")]),  # code within a line
        ("~~~~~\nprose\n```python\nx\n```", [("python", "x")]),  # a rule of tildes opens nothing
        ("", []),
    ]
    for text, blocks in cases:
        with subtests.test(text=text):
            assert fenced_blocks(text) == [Block(*block) for block in blocks]


def test_the_last_block_is_the_last_with_a_tag_or_else_without_any(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str | None]] = [
        # A tag comes before none, and the last of it.
        ("```python\n1\n```\n```python\n2\n```\n```\n3\n```\n```text\n4\n```", "2"),
        ("```PY\n1\n```", "1"),
        ("```\n1\n```\n```\n2\n```\n```text\n3\n```", "2"),
        ("```text\n1\n```", None),
        ("x = 1", None),
    ]
    for text, block in cases:
        with subtests.test(text=text):
            assert last_block(text, ("python", "py")) == block


@pytest.mark.process
@pytest.mark.parametrize(
    "piece", ["\\boxed{", "{", "<answer>", "</answer>", "</think>", "</s>", "`", "\n", " ", "~~~ ``` "]
)
def test_no_text_makes_extraction_slow(piece: str) -> None:
    assert is_linear(_extract, lambda count: "\\boxed{" + piece * count, 400_000 // len(piece))


@pytest.mark.parametrize(
    "piece",
    [
        "```\n", "```py\n", "~~~\n```\n", "```py\na```\n", "~~~\n                ```x\na```\n",
        "".join(f"{' ' * indent}```x\na```\n" for indent in range(16, -1, -1)),
        "".join(f"{'`' * length}x\n" for length in range(300, 3, -1)) + "~~~x\n" * 40_000,
    ],
)  # fmt: skip
def test_no_fences_make_extraction_slow(piece: str) -> None:
    assert is_linear(_extract, piece.__mul__, 100_000 // len(piece) + 4)


def _extract(text: str) -> None:
    response = response_part(text)
    if response is not None:
        last_box(response)
        last_answer(response)
        fenced_blocks(response)
