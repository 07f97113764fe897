r"""What an answer to a simulation says: a value in JSON, or an assertion about one call.

In: the response part of a completion. Out: data, or the two sides of the assertion, of which `literal` and `arguments`
take the data; Unanswered says why there is none. `last_object` finds an object that stands in the text alone. Called in
the scorer's process: nothing of the text is run, and each function is linear in its length. A text over
MAX_ANSWER_CHARS and a value deeper than MAX_DEPTH are refused, so that what follows may recurse.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

from scorers.text.extract import Unanswered, fenced_blocks, last_block, last_box, within
from scorers.text.literals import unfenced

MAX_ANSWER_CHARS: Final = (
    20_000  # of a box or a block; on so few Python's parser ends with an error, never badly
)
MAX_DEPTH: Final = 50  # of lists and objects in one another
_ESCAPED: Final = re.compile(r"\\([{}\[\]_])")  # of LaTeX, around braces in a box
_UPRIGHT: Final = re.compile(r"\\text\w*\s*\{(.*)\}", re.DOTALL)  # all of a box
_BOX_OPEN: Final = re.compile(r"\\boxed\s*\{")
_DECODER: Final = json.JSONDecoder()
_JSON_FENCE: Final = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*json[ \t]*$", re.MULTILINE | re.IGNORECASE)
_BRACE: Final = re.compile(r"[{}]")
_BRACE_OR_TEXT: Final = re.compile(
    r'[{}]|"(?:[^"\\\n]|\\.)*"?'
)  # a text that is not closed ends with its line
_KEYED: Final = re.compile(r"""\{\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*:""")
_NOTHING: Final = frozenset({"null", "None"})  # as an output that stands alone
_UNREADABLE: Final = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)

Predicted = Literal["input", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """`assert ENTRY(ARGUMENTS) == VALUE`, as it was written."""

    call: ast.Call
    value: ast.expr


def answered_value(response: str, predicted: Predicted) -> Any:
    """Return the value that stands under `predicted`, of JSON's types, in the last box or block of JSON.

    Where there is neither, the last complete object in the text counts. As `"output": 5` or `{"output": 5}`; an object
    without that key is itself the value, and so is an output's null alone. What is no JSON may be a literal of Python,
    with its quotes and tuples. Raises Unanswered.
    """
    text = within(_last_json(response, predicted).strip(), MAX_ANSWER_CHARS)
    if text.startswith("```"):
        text = unfenced(text)
    if not text:
        raise Unanswered("the last box or block of JSON is empty")
    if (upright := _UPRIGHT.fullmatch(text)) is not None:
        text = upright[1]
    if predicted == "output" and text.strip() in _NOTHING:
        return None
    for candidate in (text, _ESCAPED.sub(r"\1", text)):
        for whole in (candidate, f"{{{candidate}}}"):
            found = _object(whole)
            if found:  # an empty one says nothing
                value = found.get(predicted, found)
                _check_depth(value)
                return value
    raise Unanswered(f'neither JSON of the form "{predicted}": ... nor an object: {text[:60]!r}')


def read_assertion(response: str, entry: str, own: Collection[str]) -> Assertion:
    """Return the one assertion of the last block of Python. Raises Unanswered.

    Args:
        response: the text.
        entry: the function that it must be about.
        own: dumps of the statements of the row's program, which may stand beside it: they are not looked at.
    """
    block = last_block(response, ("python", "py", "python3"))
    if block is None or not block.strip():
        raise Unanswered("no closed block of Python with an assertion after the thinking")
    within(block, MAX_ANSWER_CHARS)
    try:
        statements = _parsed(block, "exec").body
        foreign = [
            statement
            for statement in statements
            if not isinstance(statement, ast.Assert) and ast.dump(statement) not in own
        ]
    except _UNREADABLE as error:
        raise Unanswered(f"the block is no Python: {type(error).__name__}") from None
    asserts = [statement for statement in statements if isinstance(statement, ast.Assert)]
    if len(asserts) != 1:
        raise Unanswered(f"the block has {len(asserts)} assertions, one is asked for")
    if foreign:
        raise Unanswered("the block has more in it than the assertion and the function as it was given")
    return _assertion(asserts[0], entry)


def literal(node: ast.expr) -> Any:
    """Return the value of a literal. Raises Unanswered for anything that would have to be run."""
    try:
        value = ast.literal_eval(node)
    except _UNREADABLE:
        raise Unanswered("the assertion holds something else than literals") from None
    _check_depth(value)
    return value


def arguments(call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments of a call, all of them literals. Raises Unanswered."""
    named = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise Unanswered("the assertion's named arguments are not each named once")
        named[keyword.arg] = literal(keyword.value)
    return [literal(argument) for argument in call.args], named


def last_object(response: str) -> str | None:
    """Return the text of the last object in a response: `{`, a key in quotes, and so on up to its own brace.

    Other braces, those of formulas and of sets, are passed over, and so is an object that is never closed. The text may
    be broken inside: whether it is JSON, the caller finds out. None where there is no object.
    """
    opened: list[tuple[int, bool]] = []  # where, and whether a key follows: only then quotes are no prose
    last = None
    at = 0
    while (
        token := (_BRACE_OR_TEXT if opened and opened[-1][1] else _BRACE).search(response, at)
    ) is not None:
        at = token.end()
        if token[0] == "{":
            opened.append((token.start(), _KEYED.match(response, token.start()) is not None))
        elif token[0] == "}" and opened:
            start, is_keyed = opened.pop()
            last = slice(start, at) if is_keyed else last
    return None if last is None else response[last]


def _last_json(response: str, predicted: Predicted) -> str:
    r"""Return what the answer is read from: the last block of JSON or box, whichever ends later; else an object.

    The prompts ask for both, a box and a block, and some answers have one in the other. Without either, a block without
    a tag counts that has the answer under its name, then the last object in the text, then any block without a tag.
    """
    start = response.rfind("\\boxed")
    blocks = fenced_blocks(response[max(start, 0) :])
    after = [block.text for block in blocks if block.tag == "json"]
    if after:
        return after[-1]
    if start >= 0:
        box = _whole_object(response, start) or last_box(response)
        if box is None:
            raise Unanswered("the last box was never closed")
        return box
    if _JSON_FENCE.search(response) is not None:
        raise Unanswered("the last block of JSON was never closed")
    plain = next((block.text for block in reversed(blocks) if not block.tag), None)
    if plain is not None and _names(plain, predicted):
        return plain
    bare = last_object(response) or plain
    if bare is None:
        raise Unanswered("no box, no closed block and no complete object of JSON after the thinking")
    return bare


def _names(text: str, predicted: Predicted) -> bool:
    """Say whether a text is an object with the wanted key, with its braces or without."""
    if len(text) > MAX_ANSWER_CHARS:
        return False
    return any(predicted in (_object(whole) or {}) for whole in (text, f"{{{text}}}"))


def _whole_object(response: str, start: int) -> str | None:
    r"""Return the object that begins with the brace of the `\boxed` at `start`, or right after it, or None.

    Unlike a box, it is not cut short by a brace in one of its texts. An empty one is an empty box.
    """
    opening = _BOX_OPEN.match(response, start)
    for brace in () if opening is None else (opening.end() - 1, opening.end()):
        text = response[brace : brace + MAX_ANSWER_CHARS + 1]
        try:
            found, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found:
            return text[:end]
    return None


def _object(text: str) -> dict[str, Any] | None:
    """Return the object of a text in JSON, or a dictionary of Python's in JSON's types; None where it is neither."""
    try:
        value: Any = json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError):
        try:
            value = _as_json(_literal_of(text))
        except _UNREADABLE:
            return None
    return value if isinstance(value, dict) else None


def _literal_of(text: str) -> Any:
    """Return a literal of Python whose dictionaries have each key once. Raises one of _UNREADABLE."""
    tree = _parsed(text, "eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [ast.dump(key) for key in node.keys if key is not None]
            if len(set(keys)) != len(node.keys):
                raise ValueError("a key twice")
    return ast.literal_eval(tree)


def _parsed(text: str, mode: str) -> Any:
    """Return what Python reads in a text, without the warnings that it would print. Raises one of _UNREADABLE."""
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(text.strip(), mode=mode)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys occur once: with one twice, an answer would say two things. Raises ValueError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _as_json(value: Any) -> Any:
    """Return a literal in JSON's types. Raises ValueError for sets, bytes and the like."""
    if isinstance(value, dict):
        found = {
            key if isinstance(key, str) else json.dumps(key): _as_json(item) for key, item in value.items()
        }
        if len(found) != len(value):
            raise ValueError("a key twice")
        return found
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"no JSON: {type(value).__name__}")


def _assertion(statement: ast.Assert, entry: str) -> Assertion:
    """Return the assertion's call and its value, on whichever side they stand. Raises Unanswered."""
    test = statement.test
    if not (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Eq)
        and (statement.msg is None or isinstance(statement.msg, ast.Constant))
    ):
        raise Unanswered(f"the assertion is not of the form `assert {entry}(...) == ...`")
    for call, value in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == entry:
            return Assertion(call=call, value=value)
    raise Unanswered(f"the assertion does not call {entry}")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise Unanswered(f"a value of more than {MAX_DEPTH} lists and objects in one another")
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple | set | frozenset):
                inner += item
        level = inner
