"""Schemas of functions: those that transformers makes, where it makes one; and arguments that are checked by them."""

from __future__ import annotations

import json
from typing import Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agents.environments.child.docstrings import read
from agents.environments.child.schemas import UnfitArguments, fitted, schema_of, signature_of
from tests.support.own_environments import Unit


def everything(  # noqa: PLR0917 - a type each
    query: str,
    count: int,
    share: float,
    is_deep: bool,
    names: list[str],
    table: dict[str, list[int]],
    mode: Literal["fast", "slow"],
    limit: Optional[int] = None,  # noqa: UP045 - both ways to say it
    either: int | str = 1,
    mixed: list[int] | str | None = None,
    plain: list = [],  # type: ignore[type-arg]  # noqa: B006
    loose: dict = {},  # type: ignore[type-arg]  # noqa: B006
    anything: Any = None,
) -> str:
    """
    Find what was asked for, as one
    who searches does.

    It may take a while.

    Args:
        query: What to look for,
            in words: "red: blue".
        count: How many.
        share: A part.
        is_deep: Whether to go on.
        names: Some names.
        table: Numbers by name.
        mode: How.
        limit: The most.
        either: One or the other.
        mixed: Several or one.
        plain: Anything.
        loose: Any object.
        anything: Whatever.

    Returns:
        What was found.
    """
    return query


def nothing() -> None:
    """Do nothing."""


@pytest.mark.model  # a library of models is imported
@pytest.mark.parametrize("function", [everything, nothing])
def test_a_schema_is_the_one_that_transformers_makes(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import chat_template_utils

    monkeypatch.setattr(chat_template_utils, "is_torch_available", lambda: False)  # it would only be imported
    theirs = chat_template_utils.get_json_schema(function)
    theirs["function"].pop("return", None)  # which no template that we know reads
    assert signature_of(function, "here").schema == theirs


NUMPY = """Find it.

Parameters
----------
query : str
    What to look for,
    in words.
count : int, optional
    How many.

Returns
-------
str
    What was found: all of it.
"""
REST = """Find it.

:param query: What to look for,
    in words.
:type query: str
:param int count: How many.
:returns: what was found
:raises KeyError: never
"""
GOOGLE = """Find it.

Args:
    query (str): What to look for,
        in words.
    count (int, optional): How many.

Raises:
    KeyError: never
"""


@pytest.mark.parametrize("docstring", [NUMPY, REST, GOOGLE], ids=["numpy", "rest", "google"])
def test_docstrings_of_three_styles_say_the_same(docstring: str) -> None:
    assert read(docstring) == ("Find it.", {"query": "What to look for, in words.", "count": "How many."})


def test_a_docstring_that_only_tells_is_all_description() -> None:
    text = "Say: what is\nmeant by it.\n\nNot more."
    assert read(text) == (text, {})


HINTS: list[Any] = [
    str,
    int,
    float,
    bool,
    list,
    dict,
    Any,
    list[int],
    list[list[str]],
    dict[str, float],
    dict[str, list[bool]],
    int | None,
    str | int,
    list[int] | str,
    Literal["a", 1, True],
    Unit,
    list[Unit],
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 0.5, "", "a", "m", "ft"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from(HINTS), JSON)
def test_a_value_fits_its_type_exactly_where_a_validator_says_so_of_the_schema(hint: Any, value: Any) -> None:
    schema = schema_of(hint, "here")
    if schema.pop("nullable", False):  # OpenAPI's word, which templates know
        schema = {"anyOf": [schema, {"type": "null"}]}
    if Draft202012Validator(schema).is_valid(value):
        fitted(value, hint, "it")
    else:
        with pytest.raises(UnfitArguments, match="it"):
            fitted(value, hint, "it")


@given(JSON)
def test_what_any_takes_is_left_as_it_is(value: Any) -> None:
    assert fitted(json.loads(json.dumps(value)), Any, "it") == value


def test_a_whole_number_of_either_spelling_is_of_the_type_that_was_asked_for() -> None:
    assert type(fitted(3.0, int, "n")) is int
    assert type(fitted(3, float, "n")) is float
    assert type(fitted(3, float | int, "n")) is int, "the type that it is of goes before one that takes it"
    assert fitted(["m"], list[Unit], "units") == [Unit.METRE]


def test_a_reason_says_where_a_value_stands() -> None:
    with pytest.raises(UnfitArguments, match=r"table\.a\[1\] is of type integer, got string \"x\""):
        fitted({"a": [1, "x"]}, dict[str, list[int]], "table")


@pytest.mark.parametrize("hint", [dict[int, str], tuple[int, int], bytes, set[str]])
def test_a_type_without_a_schema_is_named(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"here is of .*, which has no schema"):
        schema_of(hint, "here")
