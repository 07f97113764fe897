"""Convert a row's `verification_info` to checked, typed tests, once a row.

In: `{"type": "code" | "code_verifiable", "answer": {...}}` in one of six shapes. Out: a `Suite`. Called by
`scorers.code.scorer`, once for a row's whole group, and by the environment `code`, before anything is judged. A row
that can't be scored raises `BadMessage` naming what it lacks. Tests are only parsed here; they run only in the sandbox.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from broker.errors import BadMessage
from sandbox.packages import MODULES, Import
from sandbox.program import Language
from verdicts.code.answer import ALIASES, language_of
from verdicts.code.arguments import attributes_written, with_own_arguments
from verdicts.code.long_integers import long_integers
from verdicts.code.names import Flow, header_for_star, refuse_forgeable, refuse_stubs, usage_of
from verdicts.code.shapes import SHAPES, asserts_of, calls_function, prelude_for, refuse_unknown, shape_of

ROW_TYPES: Final = frozenset({"code", "code_verifiable"})
FIXTURES: Final = frozenset({"capsys", "capsysbinary", "capfd", "capfdbinary", "monkeypatch", "mocker"})
MOCKS: Final = frozenset({"mock", "unittest.mock"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCase:
    """One run of the program."""

    stdin: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Harnessed:
    """Python tests that the harness runs against the answer. The fields are sent to the harness."""

    cases: tuple[Mapping[str, Any], ...]  # {"text", "asserts"} or {"entry", "arguments", "expected"}
    module: str = "solution"
    prefix: str = ""  # runs before the answer and before the tests
    own_prefix: str = ""  # runs before the tests instead of it
    setup: str = ""  # runs before the tests
    pytest: str | None = None
    names: tuple[str, ...] = ()  # names of the answer that the tests use
    modules: tuple[str, ...] = ()  # of the standard library, used without an import
    imports: tuple[str, ...] = ()  # imports of the tests
    constants: bool = False  # whether `true`, `false` and `null` mean JSON's
    written: tuple[str, ...] = ()  # attributes that the tests write
    texts: tuple[str, ...] = ()  # the text of each case as in the row; (): they are calls

    @property
    def packages(self) -> frozenset[Import]:
        """Return the packages outside the standard library that the tests import."""
        return frozenset((name, "") for name in self.imports if name.partition(".")[0] in MODULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one row."""

    language: Language
    is_fraction: bool  # whether the usual score of such rows is the share of passed cases
    tests: tuple[StdioCase, ...] | Harnessed

    @property
    def longest_output(self) -> int:
        """Return the largest size of a case's expected output in bytes."""
        if isinstance(self.tests, Harnessed):
            return 0
        return max(len(case.expected.encode("utf-8", "surrogatepass")) for case in self.tests)


def suite_of(verification_info: Mapping[str, Any], *, split: bool, max_cases: int | None = None) -> Suite:
    """Return the row's tests.

    Args:
        verification_info: `{"type", "answer"}`.
        split: whether each top-level assert of a functional test is a separate case.
        max_cases: the most cases to run; of more, always the same ones are drawn with a seed. None: all.
    Raises:
        BadMessage: names what the row lacks.
    """
    row_type = verification_info.get("type")
    if row_type not in ROW_TYPES:
        raise BadMessage(
            f"the code scorer needs verification_info of type {' or '.join(sorted(ROW_TYPES))}, "
            f"got {row_type!r}"
        )
    answer = verification_info.get("answer")
    if not isinstance(answer, Mapping):
        raise BadMessage(f"a code row's answer is one of {', '.join(SHAPES)}; got {type(answer).__name__}")
    language = _language(language_of(verification_info))
    if (beside := verification_info.get("language")) and _language(beside) is not language:
        raise BadMessage(f"a code row of two languages: {beside!r}, and {language.value!r} in its answer")
    with long_integers():
        tests = _tests(answer, split)
    if isinstance(tests, Harnessed) and language is not Language.PYTHON:
        raise BadMessage(
            f"function calls, asserts and pytest files are for Python; this row says {language.value}"
        )
    return Suite(
        language=language, is_fraction=row_type == "code_verifiable", tests=_capped(tests, max_cases)
    )


def first_of(suite: Suite, number: int) -> Suite:
    """Return a suite with the first of its cases; not for a pytest file."""
    return replace(suite, tests=_chosen(suite.tests, range(number)))


def _tests(answer: Mapping[str, Any], split: bool) -> tuple[StdioCase, ...] | Harnessed:
    match shape_of(answer):
        case "assert_case":
            return _before(_asserts(asserts_of(answer), ""))
        case "test_cases":
            return _test_cases(answer["test_cases"], answer.get("fn_name"))
        case "functional":
            prefix = _text(answer, "prefix", "")
            tests = _functional(_text(answer, "functional"), prefix, split)
            return tests if prefix.strip() else _before(tests)
        case "tests":
            return _before(_asserts(_list(answer, "tests"), _text(answer, "setup", "")))
        case "pytest":
            return _pytest(_text(answer, "pytest"), _text(answer, "module", "solution"))
        case _:
            return _cases(answer)


def _cases(answer: Mapping[str, Any]) -> tuple[StdioCase, ...] | Harnessed:
    inputs, outputs = _list(answer, "inputs"), _list(answer, "outputs")
    if len(inputs) != len(outputs):
        raise BadMessage(f"{len(inputs)} inputs with {len(outputs)} outputs")
    if answer.get("fn_name"):
        return _calls(_text(answer, "fn_name"), inputs, outputs)
    return tuple(
        StdioCase(stdin=_stdio(given, "inputs"), expected=_stdio(wanted, "outputs"))
        for given, wanted in zip(inputs, outputs, strict=True)
    )


def _before(tests: Harnessed) -> Harnessed:
    """Return tests without imports, with the standard imports that run only before the answer."""
    return replace(tests, prefix=prelude_for(tests.names), own_prefix=tests.own_prefix or "pass")


def _language(name: Any) -> Language:
    language = ALIASES.get(str(name).strip().lower())
    if language is None:
        raise BadMessage(f"unknown language {name!r}; known: {', '.join(ALIASES)}")
    return language


def _list(answer: Mapping[str, Any], key: str) -> list[Any]:
    value = answer.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise BadMessage(f"a code row without tests: {key!r} must be a list with at least one entry")
    return list(value)


def _text(answer: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = answer.get(key, default)
    if value is None and default is not None:
        value = default
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise BadMessage(f"a code row whose {key!r} is no text")
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _test_cases(cases: Any, fn_name: Any) -> tuple[StdioCase, ...] | Harnessed:
    if not isinstance(cases, Sequence) or isinstance(cases, str) or not cases:
        raise BadMessage("a code row without tests: 'test_cases' must be a list with at least one entry")
    calls: list[str] = []
    for case in cases:
        if not isinstance(case, Mapping) or "input" not in case or "output" not in case:
            raise BadMessage('a test case is {"input": text, "output": text}')
        refuse_unknown(case, ("input", "output", "type", "testtype", "fn_name"), "in a test case")
        if calls_function(case) or case.get("fn_name") or fn_name:
            calls.append(case.get("fn_name") or fn_name or "")
    if calls and (len(calls) < len(cases) or len(set(calls)) > 1 or not calls[0]):
        raise BadMessage(
            f"test cases that call functions all name one, in 'fn_name'; of {len(cases)} these do: {calls[:5]}"
        )
    if calls:
        return _calls(
            _text({"fn_name": calls[0]}, "fn_name"),
            [case["input"] for case in cases],
            [case["output"] for case in cases],
        )
    return tuple(
        StdioCase(stdin=_stdio(case["input"], "input"), expected=_stdio(case["output"], "output"))
        for case in cases
    )


def _stdio(value: Any, key: str) -> str:
    """Return a case's text, which some rows have as a list of lines, each ended by only a line feed."""
    if (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(line, str) for line in value)
    ):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise BadMessage(f"{key!r} of a stdin/stdout case must be text, got {type(value).__name__}")
    return value.replace("\r\n", "\n")


def _calls(name: str, inputs: list[Any], outputs: list[Any]) -> Harnessed:
    """Read function calls: arguments as a list, or as text of one JSON value a line; results as JSON text or values."""
    if not name.isidentifier():
        raise BadMessage(f"'fn_name' must be the name of a function, got {name!r}")
    if all(given in ("", None) for given in inputs) and all(wanted is None for wanted in outputs):
        raise BadMessage("a code row without tests: its inputs are empty and its outputs null")
    as_text = isinstance(inputs[0], str)
    arguments = [_arguments(given) for given in inputs]
    expected = [
        _json(wanted, "outputs") if isinstance(wanted, str) and as_text else wanted for wanted in outputs
    ]
    wrapped = not as_text and all(isinstance(wanted, list) and len(wanted) == 1 for wanted in expected)
    return Harnessed(
        prefix=prelude_for([name]),
        cases=tuple(
            {"entry": name, "arguments": given, "expected": [wanted[0], wanted] if wrapped else [wanted]}
            for given, wanted in zip(arguments, expected, strict=True)
        ),
    )


def _arguments(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [_json(line, "inputs") for line in given.split("\n") if line.strip()]
    if not isinstance(given, list):
        raise BadMessage(
            "'inputs' of function calls are lists of arguments, or text with one JSON value a line"
        )
    return given


def _json(text: str, key: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadMessage(
            f"{key!r} of a function call holds {text[:60]!r}, which is no JSON: {error}"
        ) from error


def _functional(text: str, prefix: str, split: bool) -> Harnessed:
    tree = _parsed(text, "functional")
    asserts = [statement for statement in tree.body if isinstance(statement, ast.Assert)]
    has_asserts = _has_asserts(tree)
    if not has_asserts and not any(isinstance(node, ast.Call) for node in ast.walk(tree)):
        raise BadMessage("a code row whose 'functional' tests check nothing: no assert and no call")
    setup, cases = "", [{"text": text, "asserts": has_asserts}]
    others = [statement for statement in tree.body if not isinstance(statement, ast.Assert)]
    if (
        split
        and len(asserts) > 1
        and all(tree.body.index(other) < tree.body.index(asserts[0]) for other in others)
    ):
        setup = "\n".join(ast.unparse(other) for other in others)
        cases = [{"text": ast.unparse(check), "asserts": True} for check in asserts]
    return _using(tree, prefix, Harnessed(cases=tuple(cases), prefix=prefix, setup=setup))


def _asserts(tests: list[Any], setup: str) -> Harnessed:
    cases = []
    for test in tests:
        if not isinstance(test, str) or not test.strip():
            raise BadMessage("'tests' are texts, each with an assert")
        tree = _parsed(text := test.replace("\r\n", "\n"), "tests")
        if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
            raise BadMessage(f"a test without an assert: {test[:60]!r}")
        cases.append({"text": text, "asserts": _has_asserts(tree)})
    whole = _parsed("\n".join([setup, *(str(case["text"]) for case in cases)]), "setup")
    refuse_stubs(_parsed(setup, "setup"), whole, "setup")
    return _using(whole, "", Harnessed(cases=tuple(cases), setup=setup))


def _has_asserts(tree: ast.Module) -> bool:
    """Return whether a right answer reaches an assert; it reaches none in `try: f(-1); assert False`."""
    return any(
        isinstance(node, ast.Assert) and not (isinstance(node.test, ast.Constant) and not node.test.value)
        for node in ast.walk(tree)
    )


def _pytest(text: str, module: str) -> Harnessed:
    if not module.isidentifier() or module in sys.stdlib_module_names:
        raise BadMessage(
            f"'module' must be a module's name, and none of the standard library's, got {module!r}"
        )
    tree = _parsed(text, "pytest")
    if (tool := _reaching_tool(tree)) is not None:
        raise BadMessage(
            f"a pytest file with {tool!r}: the answer runs in a process of its own, whose output and "
            "objects the tests can neither see nor replace"
        )
    imports = tuple(name for name in _imports(tree) if name.partition(".")[0] != module)
    if len(imports) == len(_imports(tree)):
        raise BadMessage(
            f"a pytest file that imports nothing from {module!r}, the module that the answer becomes"
        )
    taken = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == module
    }
    refuse_forgeable(Flow([tree], taken, next(iter(aliases), None)))
    setup = header_for_star(tree) if "*" in taken else ""
    imports = tuple(sorted({"pytest", *imports, *_imports(ast.parse(setup))}))
    tests = Harnessed(cases=(), setup=setup, pytest=text, module=module, imports=imports)
    return _owning(tests, taken, next(iter(aliases), None))


def _reaching_tool(tree: ast.Module) -> str | None:
    """Return the tool that can't work, since answer and tests run in two processes; None: the file uses none.

    Such a tool reads the answer's output or replaces its objects: every answer would be wrong.
    """
    nodes = list(ast.walk(tree))
    if found := next((name for node in nodes for name in _fixtures_of(node) if name in FIXTURES), None):
        return found
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {
        name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    taken = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module in MOCKS
        for alias in node.names
    }
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return "mock.patch" if modules & MOCKS and "patch" in taken | used else None


def _fixtures_of(node: ast.AST) -> Iterator[str]:
    """Yield the fixtures that a function uses by its parameters, or a mark by name."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            yield argument.arg
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "usefixtures"
    ):
        for named in node.args:
            if isinstance(named, ast.Constant):
                yield str(named.value)


def _parsed(text: str, key: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadMessage(f"a code row whose {key!r} tests are no Python: {error}") from error


def _imports(tree: ast.Module) -> list[str]:
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    return sorted(set(names))


def _using(tree: ast.Module, prefix: str, harnessed: Harnessed) -> Harnessed:
    """Return the tests with the names that they use and do not define. Raises BadMessage."""
    usage = usage_of(tree, prefix)
    setup = f"{usage.header}\n{harnessed.setup}" if usage.header else harnessed.setup
    used = replace(
        harnessed,
        setup=setup,
        names=usage.answer,
        modules=usage.modules,
        imports=tuple(
            sorted(
                {
                    *_imports(_parsed(prefix, "prefix")),
                    *_imports(_parsed(setup, "setup")),
                    *_imports(tree),
                    *usage.modules,
                }
            )
        ),
        constants=usage.constants,
    )
    return _owning(used, usage.answer)


def _owning(tests: Harnessed, own: Iterable[str], module: str | None = None) -> Harnessed:
    """Return the tests with marks for their own arguments written into them. Raises BadMessage."""
    cases = [str(case["text"]) for case in tests.cases]
    texts = [tests.prefix, tests.setup, tests.pytest or "", *cases]
    trees = [_parsed(text, "tests") for text in texts]
    written = attributes_written(trees)
    try:
        changed = with_own_arguments(trees, own, module)
        prefix, setup, pytest, *cases = [
            ast.unparse(tree) if is_changed else text
            for tree, text, is_changed in zip(trees, texts, changed, strict=True)
        ]
    except RecursionError:
        raise BadMessage("a code row whose tests are nested too deeply to be read") from None
    return replace(
        tests,
        own_prefix=prefix,
        setup=setup,
        pytest=pytest if tests.pytest is not None else None,
        written=written,
        texts=tuple(str(case["text"]) for case in tests.cases),
        cases=tuple({**case, "text": text} for case, text in zip(tests.cases, cases, strict=True)),
    )


def _capped(tests: tuple[StdioCase, ...] | Harnessed, most: int | None) -> tuple[StdioCase, ...] | Harnessed:
    """Return at most `most` cases in order, drawn with a fixed seed: each worker draws the same."""
    cases = tests.cases if isinstance(tests, Harnessed) else tests
    if most is None or len(cases) <= most:
        return tests
    drawn = sorted(random.Random(0).sample(range(len(cases)), most))  # noqa: S311 - a choice, not a secret
    return _chosen(tests, drawn)


def _chosen(
    tests: tuple[StdioCase, ...] | Harnessed, indices: Sequence[int]
) -> tuple[StdioCase, ...] | Harnessed:
    if not isinstance(tests, Harnessed):
        return tuple(tests[index] for index in indices)
    texts = tests.texts and tuple(tests.texts[index] for index in indices)
    return replace(tests, cases=tuple(tests.cases[index] for index in indices), texts=texts)
