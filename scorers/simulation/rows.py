"""From a row's `verification_info` to the question that it asks: checked, typed, once a row.

In: `{"type": "codeio" | "cruxeval", "answer": {...}}`. Out: a question, which reads an answer. It finds the answer
right or wrong, or names the test that the row's own program must pass for the answer to be right. Called by
`scorers.simulation.scorer`. What could never be scored raises `BadMessage` naming what the row lacks. Programs are
parsed here, never run: only the sandbox runs anything.
"""

from __future__ import annotations

import ast
import json
import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from broker.errors import BadMessage
from scorers.simulation.answers import Predicted, answered_value, arguments, literal, read_assertion
from scorers.simulation.values import same
from scorers.text.extract import Unanswered
from tasks.values import shown

ROW_TYPES: Final = ("codeio", "cruxeval")
CODEIO_ENTRY: Final = "main_solution"  # of the programs of CodeI/O
CRUXEVAL_ENTRY: Final = "f"
_SHOWN_CHARS: Final = 60  # of a call in a reason
_WANTED: Final = "__wanted__"  # name of what a program gives for its row's own input


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A row's own program, and what it must do for the row to be of use."""

    code: str
    entry: str
    gold: str  # a test in Python: it can be loaded, and gives what the row says of it
    setup: str = (
        ""  # runs before every test: nothing that an answered input does to the program comes before it
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFinding:
    """What is to be said of an answer: a verdict, or the test that decides."""

    is_right: bool
    reason: str
    test: str | None = (
        None  # that the reference must pass, in Python; of literals alone, but for the row's own text
    )


class SimulationQuestion(Protocol):
    """What one row asks."""

    @property
    def reference(self) -> Reference | None:
        """The program of the row; None where a comparison decides, and nothing is run."""
        ...

    def finding(self, response: str) -> AnswerFinding:
        """Return what an answer comes to. Raises Unanswered."""
        ...

    def stubs(self) -> Iterator[tuple[str, str]]:
        """Yield responses without any work in them, each with its words: none may be right.

        They are inputs, with which a program that looks at its input can do nothing. An output is one value, whichever.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeIO:
    """An input or the output of a program, as JSON."""

    predict: Predicted
    value: Any  # the reference's
    reference: Reference | None = None  # for inputs: any one is right that gives the same output
    wanted: str = ""  # what the reference must give, as an expression of its tests

    def finding(self, response: str) -> AnswerFinding:
        """See SimulationQuestion."""
        answered = answered_value(response, self.predict)
        if self.predict == "input" and not isinstance(answered, dict):
            raise Unanswered("the answered input is no object with the variables' names")
        if self.reference is None:
            return _compared(answered, self.value, is_json=True)
        call = f"{self.reference.entry}(**{_written(answered)})"
        return AnswerFinding(
            is_right=False, reason=f"with the input {shown(answered)}", test=f"assert {call} == {self.wanted}"
        )

    def stubs(self) -> Iterator[tuple[str, str]]:
        """See SimulationQuestion."""
        if self.reference is not None:
            for words, variables in (
                ("no variable", {}),
                ("null for every variable", dict.fromkeys(self.value)),
            ):
                if variables != self.value:
                    yield f"an input of {words}", f"```json\n{json.dumps({'input': variables})}\n```"


@dataclass(frozen=True, slots=True, kw_only=True)
class CruxEvalOutput:
    """`assert f(GIVEN) == ...`, to be completed with a literal."""

    entry: str
    own: frozenset[str]  # dumps of the program's statements
    call: ast.Call  # the given one
    call_text: str
    output: Any = None  # what it gives; meaningless where the reference is to say it
    reference: Reference | None = None

    def finding(self, response: str) -> AnswerFinding:
        """See SimulationQuestion."""
        answered = read_assertion(response, self.entry, self.own)
        if not _is_same_call(answered.call, self.call):
            raise Unanswered(f"the assertion is about another call than {_shown_node(self.call)}")
        value = literal(answered.value)
        if self.reference is None:
            return _compared(value, self.output, is_json=False)
        return AnswerFinding(
            is_right=False,
            reason=f"with the output {shown(value)}",
            test=f"assert Data({_written(value)}, False) == {self.call_text}",
        )

    def stubs(self) -> Iterator[tuple[str, str]]:
        """See SimulationQuestion."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CruxEvalInput:
    """`assert f(...) == GIVEN`, to be completed with any input that gives it."""

    entry: str
    own: frozenset[str]  # dumps of the program's statements
    output: Any
    wanted: str  # the same as an expression of the tests
    reference: Reference

    def finding(self, response: str) -> AnswerFinding:
        """See SimulationQuestion."""
        answered = read_assertion(response, self.entry, self.own)
        if not same(literal(answered.value), self.output, is_json=False):
            raise Unanswered(f"the assertion is about another output than {shown(self.output)}")
        positional, named = arguments(answered.call)
        call = f"{self.entry}(*{_written(positional)}, **{_written(named)})"
        return AnswerFinding(
            is_right=False,
            reason=f"with the input {_shown_node(answered.call)}",
            test=f"assert {call} == {self.wanted}",
        )

    def stubs(self) -> Iterator[tuple[str, str]]:
        """See SimulationQuestion."""
        yield "an input of None", f"```python\nassert {self.entry}(None) == {_row_text(self.output)}\n```"


def question_of(verification_info: Mapping[str, Any]) -> SimulationQuestion:
    """Return what the row asks. Raises BadMessage naming what the row lacks."""
    row_type = verification_info.get("type")
    if row_type not in ROW_TYPES:
        raise BadMessage(
            f"the simulation scorer needs verification_info of type {' or '.join(ROW_TYPES)}, "
            f"got {shown(row_type)}"
        )
    answer = verification_info.get("answer")
    if not isinstance(answer, Mapping):
        raise BadMessage(f"a {row_type} row's answer is an object, got {type(answer).__name__}")
    return _codeio(answer) if row_type == "codeio" else _cruxeval(answer)


def _codeio(answer: Mapping[str, Any]) -> CodeIO:
    predict, value = _reference_value(answer)
    if predict == "input" and not isinstance(value, dict):
        raise BadMessage(f"a codeio row's input is an object with the variables' names, got {shown(value)}")
    if predict == "output" or answer.get("code") is None:
        return CodeIO(predict=predict, value=value)
    code, entry, _ = _program(answer, "code", CODEIO_ENTRY)
    call = f"{entry}(**{_row_text(value)})"
    output, setup = (
        (_row_text(answer["output"]), "") if "output" in answer else (_WANTED, f"{_WANTED} = {call}\n")
    )
    wanted = f"Data({output}, True)"
    reference = Reference(code=code, entry=entry, gold=f"assert {call} == {wanted}", setup=setup)
    return CodeIO(predict=predict, value=value, reference=reference, wanted=wanted)


def _reference_value(answer: Mapping[str, Any]) -> tuple[Predicted, Any]:
    """Return what is asked for, and the reference: apart, or as Reasoning360's `"input": ...` or `"output": ...`."""
    if "value" not in answer:
        raise BadMessage("""a codeio row needs {"predict", "value"}, or a value like '"output": null'""")
    value = answer["value"]
    if "predict" in answer:
        return _predicted(answer["predict"], "codeio"), value
    try:
        ((predict, found),) = json.loads(f"{{{value}}}" if isinstance(value, str) else "[]").items()
    except (ValueError, RecursionError, AttributeError):
        raise BadMessage(
            """a codeio row without 'predict' has a value like '"input": {"n": 3}' or '"output": 5'; """
            f"got {shown(value)}"
        ) from None
    return _predicted(predict, "codeio"), found


def _predicted(value: Any, row_type: str) -> Predicted:
    if value == "input":
        return "input"
    if value == "output":
        return "output"
    raise BadMessage(f"a {row_type} row asks for its 'input' or its 'output', got {shown(value)}")


def _cruxeval(answer: Mapping[str, Any]) -> CruxEvalOutput | CruxEvalInput:
    code, entry, own = _program(answer, "functional", CRUXEVAL_ENTRY)
    call_text = f"{entry}({answer.get('input')})"
    call = _given_call(answer["input"], entry) if answer.get("input") is not None else None
    output = _given_output(answer["output"]) if answer.get("output") is not None else NotImplemented
    has_output = output is not NotImplemented
    if "predict" in answer:
        predict = _predicted(answer["predict"], "cruxeval")
    elif (call is not None) == has_output:
        raise BadMessage("a cruxeval row has 'input' or 'output', or both and 'predict'")
    else:
        predict = "input" if has_output else "output"
    if predict == "output":
        if call is None:
            raise BadMessage("a cruxeval row that asks for the output needs the 'input'")
        gives_data = Reference(code=code, entry=entry, gold=f"assert Data({call_text}, False) == {call_text}")
        return CruxEvalOutput(
            entry=entry,
            own=own,
            call=call,
            call_text=call_text,
            output=output,
            reference=None if has_output else gives_data,
        )
    if not has_output:
        raise BadMessage("a cruxeval row that asks for the input needs the 'output'")
    wanted = f"Data({_row_text(output)}, False)"
    gold = f"{entry} is not None" if call is None else f"{call_text} == {wanted}"
    return CruxEvalInput(
        entry=entry,
        own=own,
        output=output,
        wanted=wanted,
        reference=Reference(code=code, entry=entry, gold=f"assert {gold}"),
    )


def _program(answer: Mapping[str, Any], key: str, default_entry: str) -> tuple[str, str, frozenset[str]]:
    """Return the row's program, its function, and the dumps of its statements. Raises BadMessage."""
    code, entry = answer.get(key), answer.get("entry") or default_entry
    if not isinstance(code, str) or not code.strip():
        raise BadMessage(f"{key!r} must be the text of a program in Python, got {shown(code)}")
    if not isinstance(entry, str) or not entry.isidentifier() or keyword.iskeyword(entry):
        raise BadMessage(f"'entry' must be the name of a function, got {shown(entry)}")
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    try:
        statements = ast.parse(code).body
        own = frozenset(ast.dump(statement) for statement in statements)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadMessage(f"{key!r} is no program in Python: {error}") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == entry for node in statements):
        raise BadMessage(f"{key!r} defines no function {entry!r}")
    return code, entry, own


def _given_call(text: Any, entry: str) -> ast.Call:
    """Return the call that a row's input, the arguments as text, makes. Raises BadMessage."""
    try:
        node = ast.parse(f"{entry}({text})", mode="eval").body if isinstance(text, str) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise BadMessage(
            f"'input' of a cruxeval row is the text of the arguments, as in '[1, 2], 3'; got {shown(text)}"
        )
    return node


def _given_output(text: Any) -> Any:
    """Return the value that a row's output, a literal as text, has. Raises BadMessage."""
    try:
        return literal(ast.parse(text.strip(), mode="eval").body)
    except (Unanswered, AttributeError, TypeError, SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadMessage(
            "'output' of a cruxeval row is a literal of Python as text, as in \"'ab'\" or '[1, 2]'; "
            f"got {shown(text)}"
        ) from None


def _is_same_call(call: ast.Call, other: ast.Call) -> bool:
    """Return whether two calls are written alike, or have the same literals as arguments."""
    try:
        if ast.dump(call) == ast.dump(other):
            return True
    except (RecursionError, ValueError):  # deeper, or with more digits, than what a row gives
        return False
    try:
        (mine, my_names), (theirs, their_names) = arguments(call), arguments(other)
    except Unanswered:
        return False
    return same(mine, theirs, is_json=False) and same(my_names, their_names, is_json=False)


def _compared(answered: Any, expected: Any, *, is_json: bool) -> AnswerFinding:
    is_right = same(answered, expected, is_json)
    return AnswerFinding(is_right=is_right, reason=f"answered {shown(answered)}, expected {shown(expected)}")


def _written(value: Any) -> str:
    """Return an answer's data as an expression. Raises Unanswered for an integer of more digits than Python writes."""
    try:
        return repr(value)
    except ValueError as error:
        raise Unanswered(f"the answer holds a number that can't be written: {error}") from None


def _row_text(value: Any) -> str:
    """Return a row's data as an expression. Raises BadMessage."""
    try:
        return _written(value)
    except Unanswered as error:
        raise BadMessage(f"a row whose value can't be written: {error}") from None


def _shown_node(node: ast.expr) -> str:
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        return "that one"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
