"""Programs against their tests: shapes of rows, verl's of KodCode, standards of C++, limits, credit, a sandbox that fails."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from broker.errors import BadMessage, Retryable
from broker.messages import ScoreStatus
from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.program import Language, Sandbox
from scorers.code.scorer import RULES, CodeTests
from scorers.text.extract import MAX_RESPONSE_CHARS, Unanswered
from tasks.route import route
from tests.support.paths import DATA
from tests.support.sandbox.unable import Unable
from tests.support.tried_again import judged
from verdicts.code.answer import program_of

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

MBPP = DATA / "mbpp.jsonl"


def variant(scorer: CodeTests, *, credit: str | None = None, **options: Any) -> CodeTests:
    config = scorer._config.model_copy(update=options)
    return CodeTests(config, scorer._scorers.model_copy(update={"credit": credit}), scorer._sandbox.get())


SUM = "print(sum(map(int, open(0).read().split())))"
THREE = {
    "test_cases": [
        {"input": given, "output": wanted}
        for given, wanted in (("3\n5", "8"), ("-10\n4", "-6"), ("1\n1", "3"))
    ]
}


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "I don't know", "</think>", "pass", SUM, "```python\n\n```", "\0", "\ud800",
        f"```python\n{SUM}\n",
        f"<think>```python\n{SUM}\n```",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "answer",
    [
        THREE, {"tests": ["assert f"]}, {"functional": "assert f() or True"},
        {"pytest": "import solution\ndef test(): pass"},
        {"inputs": [[1]], "outputs": [1], "fn_name": "f"},
    ],
)  # fmt: skip
def test_a_text_without_a_program_is_wrong(scorer: CodeTests, text: str, answer: dict[str, Any]) -> None:
    score = scorer.score(text, {"type": "code_verifiable", "answer": answer})
    assert (score.value, score.components) == (0.0, {"passed": 0.0})
    assert "no answer" in score.reason


@pytest.mark.parametrize(
    ("program", "inputs", "outputs", "value"),
    [
        ("def f(a, b): return a + b", [[1, 2]], [3], 1.0),
        ("class Solution:\n def f(self, a, b): return a + b", [[1, 2], [[1], [2]]], [3, [1, 2]], 1.0),
        ("def f(x): return (x, [x])", [[1]], [[1, [1]]], 1.0),  # JSON has no tuples
        ("def f(x): return x", [[4]], [[4]], 1.0),  # APPS wraps its results
        ("def f(x): return 1.0", [[2]], [1], 1.0),  # equal in Python
        ("def f(x): return {1: x}", ["true"], ['{"1": true}'], 1.0),
        ("def f(x): return 1", ["0"], ["true"], 1.0),
        ("def f(a, b): return a[::-1] + b", ["[1, 2]\n[3]"], ["[2, 1, 3]"], 1.0),
        ("def f(x): return x", [[10**30]], [10**30], 1.0),
        ("def g(x): return x", [[1]], [1], 0.0),
    ],
)
def test_a_function_is_called_and_its_results_decide(
    scorer: CodeTests, program: str, inputs: list[Any], outputs: list[Any], value: float
) -> None:
    score = judged(scorer, program, {"inputs": inputs, "outputs": outputs, "fn_name": "f"})
    assert score.value == value, score.reason


PYTEST = """import pytest
from solution import add, Odd

@pytest.mark.parametrize("a, b, c", [(1, 2, 3), ("a", "b", "ab")])
def test_adds(a, b, c, tmp_path):
    assert add(a, b) == c

def test_raises():
    with pytest.raises(Odd, match="three"):
        add(3, 3)

@pytest.mark.skip
def test_nothing():
    assert False
"""
ODD = "class Odd(ValueError): pass"
ADD = f"{ODD}\ndef add(a, b):\n    if a == 3: raise Odd('three')\n    return a + b"


@pytest.mark.parametrize(
    ("program", "kind", "value", "said"),
    [
        (ADD, "code", 1.0, "all 3 cases"),
        (ADD.replace("a + b", "3"), "code_verifiable", 2 / 3, "2 of 3"),
        (ADD.replace("a + b", "3"), "code", 0.0, "2 of 3"),
        ("def add(a, b): return a + b", "code", 0.0, "Odd"),
        (f"import pytest\n{ADD}\ndef add(a, b): pytest.skip()", "code", 0.0, ""),
        (f"import pytest\n{ODD}\ndef add(*a): pytest.exit('done', returncode=0)", "code", 0.0, ""),
        ("import os\n" + ADD.replace("return a + b", "os._exit(0)"), "code", 0.0, "ended itself"),
        ("import sys\nsys.modules['pytest'] = None\n" + ADD.replace("a + b", "1"), "code", 0.0, ""),
        (
            f"open('conftest.py', 'w').write('import os; os._exit(0)')\n{ODD}\ndef add(*_): return 1",
            "code",
            0.0,
            "",
        ),
    ],
)
def test_a_pytest_file(scorer: CodeTests, program: str, kind: str, value: float, said: str) -> None:
    score = judged(scorer, program, {"pytest": PYTEST}, kind)
    assert score.value == pytest.approx(value), score.reason
    assert said in score.reason


def test_tests_that_an_answer_brings_are_not_run(scorer: CodeTests) -> None:
    tests = "from solution import *\ndef test_f(): assert f(1) == 1"
    score = judged(scorer, "def f(x): return x\ndef test_mine(): assert f(1) == 2", {"pytest": tests})
    assert (score.value, score.reason) == (1.0, "the case passed")


IN_CPP = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }"
IN_NODE = (
    "process.stdin.on('data', d => { const [a, b] = String(d).split(' ').map(Number); console.log(a + b); });"
)


@pytest.mark.prove(cases=("cpp",))
@pytest.mark.parametrize(("tag", "program"), [("cpp", IN_CPP), ("js", IN_NODE)], ids=["cpp", "js"])
def test_other_languages(scorer: CodeTests, tag: str, program: str) -> None:
    answer = {"inputs": ["3 5"], "outputs": ["8"], "language": tag}
    language = Language.CPP if tag.startswith("c") else Language.JAVASCRIPT
    if language not in scorer._sandbox.get().languages:
        pytest.skip(f"this machine has no {language.value}")
    for text, value in ((program, 1.0), (program.replace("+", "-"), 0.0), ("int main( {", 0.0)):
        score = judged(scorer, text, answer, tag=tag)
        assert score.value == value, score.reason


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print(9)", "case 1 failed: expected '8', got '9'"),
        ("print(8); raise SystemExit(3)", "exit code 3"),
        ("print(8); import os; os.kill(os.getpid(), 11)", "signal"),
        ("1 / 0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
        ("x = [0] * (1 << 34)", "Memory"),
        ("print(8, end='\\n' * 9); print(7)", "line"),
        ("while True: print('8' * 4096)", "limit"),
        ("import time; time.sleep(60)", "again alone"),
    ],
)
def test_reasons_say_what_a_program_did(scorer: CodeTests, program: str, said: str) -> None:
    score = judged(variant(scorer, case_timeout_s=1.0), program, {"inputs": ["3 5"], "outputs": ["8"]})
    assert score.value == 0.0
    assert said.replace("case 1 failed", "case 1") in score.reason
    assert len(score.reason) <= 200


HANGS = "def f(x):\n    while x == 2: pass\n    return x\nif __name__ == '__main__': print(f(int(input())))"
CALLS = {"tests": [f"assert f({n}) == {n}" for n in range(5)]}
RUNS = {"inputs": [str(n) for n in range(5)], "outputs": [str(n) for n in range(5)]}


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("answer", [CALLS, RUNS])
@pytest.mark.parametrize(
    "program",
    [
        HANGS,
        HANGS.replace("while x == 2: pass", "if x == 2: import os; os._exit(0)"),
        HANGS.replace("while x == 2: pass", "if x == 2: x = bytes(1 << 40)"),
    ],
)
def test_a_hanging_case_costs_itself_only(scorer: CodeTests, answer: dict[str, Any], program: str) -> None:
    score = judged(variant(scorer, credit="fraction", case_timeout_s=1.0), program, answer)
    assert score.value == 0.8, score.reason
    assert score.reason.startswith("4 of 5 cases passed; case 3: ")


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("answer", [CALLS, RUNS])
@pytest.mark.parametrize("program", ["while True: pass", "def f(x):\n while True: pass"])
def test_an_answer_is_judged_in_its_deadline(scorer: CodeTests, answer: dict[str, Any], program: str) -> None:
    many = {name: cases * 12 for name, cases in answer.items()}  # a second each
    score = judged(variant(scorer, credit="fraction", case_timeout_s=1.0, deadline_s=1.5), program, many)
    assert score.value == 0.0
    assert score.seconds < 15.0


def test_a_program_that_hangs_its_compiler_is_wrong_within_its_deadline(scorer: CodeTests) -> None:
    if Language.CPP not in scorer._sandbox.get().languages:
        pytest.skip("no C++ compiler here")
    bomb = (
        "template<int D, unsigned long long N> struct A { enum { v = A<D-1, 2*N>::v + A<D-1, 2*N+1>::v }; };\n"
        "template<unsigned long long N> struct A<0, N> { enum { v = 1 }; };\nint main() { return A<40, 1>::v; }"
    )
    score = judged(variant(scorer, deadline_s=2.0), bomb, {**RUNS, "language": "c++"}, tag="cpp")
    assert score.value == 0.0
    assert "does not compile: 1 s of time, and again alone" in score.reason
    assert score.components["over_limit"] == 1.0
    assert score.seconds < 20.0, "it would be at work for years"


@pytest.mark.parametrize(
    ("credit", "kind", "value"),
    [
        (None, "code", 0.0), (None, "code_verifiable", 0.5), ("all", "code_verifiable", 0.0),
        ("fraction", "code", 0.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "answer",
    [
        {"tests": ["assert f(1) == 1", "assert f(1) == 2"]},
        {"functional": "x = 1\nassert f(x) == 1\nassert f(x) == 2"},
        {"inputs": ["1", "1"], "outputs": ["1", "2"], "fn_name": "f"},
        {"inputs": ["1", "1"], "outputs": ["1", "2"]},
    ],
)
def test_credit_is_the_rows_own_unless_the_config_says(
    scorer: CodeTests, answer: dict[str, Any], credit: str | None, kind: str, value: float
) -> None:
    score = judged(
        variant(scorer, credit=credit),
        "def f(x): return x\nif __name__ == '__main__': print(f(input()))",
        answer,
        kind,
    )
    assert score.value == value, score.reason
    assert score.components["passed"] == (
        0.5 if value or "functional" not in answer else 0.0
    )  # one case, or two


def test_of_many_cases_a_few_are_run(scorer: CodeTests) -> None:
    answer = {"inputs": [[n] for n in range(50)], "outputs": list(range(50)), "fn_name": "f"}
    score = judged(
        variant(scorer, credit="fraction", max_cases=8), "def f(x): return x if x % 2 else 0", answer
    )
    assert "of 8 cases" in score.reason


@pytest.mark.prove(after=1)
@pytest.mark.skipif(not MBPP.exists(), reason="needs shared/data/mbpp.jsonl")
@pytest.mark.parametrize("which", ["more than a call", "every 250th"])
def test_reference_solutions_of_mbpp_pass(scorer: CodeTests, which: str) -> None:
    """Those that need more than a call of a function, and a few others; `make prove-mbpp` has all."""
    rows = [json.loads(line) for line in MBPP.read_text(encoding="utf-8").splitlines()]
    odd = [row for row in rows if row["task_id"] in {126, 367, 533, 596, 601, 927}]
    chosen = odd if which == "more than a call" else rows[::250]
    assert chosen != []
    failed = {}
    for row in chosen:
        answer = {"tests": row["test_list"] + row["challenge_test_list"], "setup": row["test_setup_code"]}
        if (score := judged(scorer, row["code"], answer)).value != 1.0:
            failed[row["task_id"]] = score.reason
    assert failed == {}


def test_right_and_wrong_are_told_apart_here(scorer: CodeTests) -> None:
    scorer.self_test()


def test_the_version_names_the_rules_and_the_sandbox(scorer: CodeTests) -> None:
    assert scorer.version.startswith(f"{RULES} ")
    assert "python=" in scorer.version


@pytest.fixture
def broken() -> CodeTests:
    """Yield a scorer whose sandbox knows no C++, and is away."""
    return CodeTests(CodeConfig(), ScorersConfig(), Unable(languages=frozenset({Language.PYTHON})))


def test_an_output_that_the_sandbox_can_not_carry_makes_a_row_unscorable(broken: CodeTests) -> None:
    score = judged(broken, "print(1)", {"inputs": ["", ""], "outputs": ["1", "é" * 501]})
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert "a case expects 1002 bytes of output; the sandbox here (unable) carries 1000" in score.reason


@pytest.mark.parametrize("answer", [CALLS, RUNS])
def test_a_sandbox_that_fails_is_never_a_zero(broken: CodeTests, answer: dict[str, Any]) -> None:
    with pytest.raises(Retryable, match="refused the connection"):
        judged(broken, "print(1)", answer)


def test_a_language_that_the_sandbox_lacks_is_unscorable(broken: CodeTests) -> None:
    score = judged(broken, "int main() {}", {**RUNS, "language": "c++"}, tag="cpp")
    assert (score.status, score.value) == (ScoreStatus.UNSCORABLE, None)
    assert "has no cpp" in score.reason


def test_a_row_is_checked_without_a_sandbox() -> None:
    scorer = CodeTests(CodeConfig(), ScorersConfig())
    scorer.check_row({"type": "code", "answer": CALLS})
    with pytest.raises(BadMessage, match="at least one"):
        scorer.check_row({"type": "code", "answer": {"tests": []}})
    scorer.close()


def test_the_last_block_of_the_language_is_the_program(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Language, str]] = [
        ("```cpp\na\n```\n```python\nb\n```", Language.CPP, "a"),
        ("```js\na\n```", Language.JAVASCRIPT, "a"),
        ("```python\na\n```<|im_end|>", Language.PYTHON, "a"),
        ("```Python\na\n```", Language.PYTHON, "a"),
        ("```py\na\n```", Language.PYTHON, "a"),
        ("```python \na\n```", Language.PYTHON, "a"),
        ("```python3\r\na\r\n```\r\n", Language.PYTHON, "a"),
        ("```\na\n```", Language.PYTHON, "a"),
        ("```python\nb\n```\nBetter:\n```python\na\n```", Language.PYTHON, "a"),
        ("```python\na\n```\nIt prints:\n```\n8\n```", Language.PYTHON, "a"),
        ("```python\na\n```\nRun it:\n```bash\necho 8\n```", Language.PYTHON, "a"),
        ("<think>```python\nb\n```</think>\n```python\na\n```", Language.PYTHON, "a"),
    ]
    for text, language, program in cases:
        with subtests.test(text=text, language=language):
            assert program_of(text, language).strip() == program


def test_the_block_of_another_language_is_no_program() -> None:
    with pytest.raises(Unanswered, match="no closed code block"):
        program_of("```cpp\na\n```", Language.PYTHON)


def test_a_response_that_is_too_long_to_search_has_no_program() -> None:
    with pytest.raises(Unanswered, match="1000000 is the limit"):
        program_of("```python\na\n```" + "\n```" * (MAX_RESPONSE_CHARS // 4), Language.PYTHON)


ASSERTS = [
    "assert merge([(0, 1), (3, 5), (4, 7)]) == [(0, 1), (3, 7)]",
    "assert merge([(1, 2), (2, 3)]) == [(1, 3)]",
    "assert merge([]) == []",
]
RIGHT = """
def merge(spans: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    found = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
"""
WRONG = RIGHT.replace("first <= found", "first < found")


def of_verl(scorer: CodeTests, program: str, truth: dict[str, Any]) -> float | None:
    """Score a program by a row of verl, whose ground truth is JSON's text."""
    row = {"data_source": "taco", "prompt": [], "reward_model": {"ground_truth": json.dumps(truth)}}
    _, info = route(row)
    scorer.check_row(info)
    return scorer.score(f"```python\n{program}\n```", info).value


def test_verls_rows_of_kodcode_are_scored_by_their_asserts(scorer: CodeTests) -> None:
    truth = {"assert_case": ASSERTS, "fn_name": "merge", "inputs": [""], "outputs": [None]}
    programs = (RIGHT, WRONG, "def merge(spans): return []", "import sys\nsys.exit(0)")
    assert [of_verl(scorer, program, truth) for program in programs] == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.prove(after=3)
@pytest.mark.parametrize(
    ("truth", "right", "wrong"),
    [
        (
            {"functional": "assert Solution().f([1, 2]) == 3\nassert Solution().f([]) == 0"},
            "class Solution:\n    def f(self, xs: List[int]) -> int: return sum(xs)",
            "class Solution:\n    def f(self, xs: List[int]) -> int: return len(xs)",
        ),
        (
            {"functional": "def check(g):\n    assert g('aab') == {'a': 2, 'b': 1}\n    assert g('') == {}\ncheck(f)"},
            "def f(s): return dict(Counter(s))",
            "def f(s): return dict(Counter(s + 'a'))",
        ),
        (
            {"functional": "assert gcd(4, 6) == 2\nassert gcd(5, 7) == 1"},
            "def gcd(a, b):\n    while b: a, b = b, a % b\n    return a",
            "x = 1",
        ),
        (
            {"inputs": [[4, 6], [5, 7]], "outputs": [2, 1], "fn_name": "gcd"},
            "from math import gcd",
            "x = 1",
        ),
        (
            {"functional": "assert area(1) == pytest.approx(3.14159, abs=1e-4)\nassert area(0) == 0"},
            "from math import pi\ndef area(r): return pi * r ** 2",
            "def area(r): return 3 * r",
        ),
    ],
)  # fmt: skip
def test_an_answer_without_imports_is_right_and_one_without_work_is_not(
    scorer: CodeTests, truth: dict[str, Any], right: str, wrong: str
) -> None:
    assert of_verl(scorer, right, truth) == 1.0
    assert of_verl(scorer, wrong, truth) == 0.0


TWO_NUMBERS = {"language": "cpp", "test_cases": [{"input": "3 5\n", "output": "8\n"}]}
HEADERS = "algorithm bit compare concepts iostream map numbers numeric ranges set span string vector"
OF_2020 = (
    "".join(f"#include <{name}>\n" for name in HEADERS.split())
    + """
template <std::integral T> T twice(T x) { return x + x; }
template <class T> concept Number = requires(T a) { { a + a } -> std::convertible_to<T>; };
auto plus(Number auto a, Number auto b) { return a + b; }
struct Point { int x = 0, y = 0; auto operator<=>(const Point&) const = default; };
consteval int four() { return 4; }
int main() {
    using enum std::ios_base::seekdir;
    int a, b;
    std::cin >> a >> b;
    std::vector<int> xs{4, 1, 3};
    std::ranges::sort(xs);
    for (int skipped = 0; int x : xs | std::views::filter([](int x) { return x > 1; })) skipped += x;
    std::erase_if(xs, [](int x) { return x > 3; });
    std::map<int, int> seen{{1, 2}};
    Point p{.x = 1, .y = 2};
    bool ok = seen.contains(1) && std::set<int>{1}.contains(1) && std::popcount(7u) == 3 && std::ssize(xs) == 2
        && p < Point{.x = 2, .y = 0} && std::midpoint(2, 4) == 3 && std::numbers::pi > 3 && twice(2) == four()
        && std::string("abc").starts_with("ab") && std::span<int>(xs).size() == 2
        && []<class T>(T x) { return x; }(true);
    if (ok) [[likely]] std::cout << plus(a, b) << std::endl;
}
"""
)
SHORT_2020 = """
#include <iostream>
template <class T> concept Number = requires(T a) { a + a; };
auto plus(Number auto a, Number auto b) { return a + b; }
int main() { int a, b; std::cin >> a >> b; std::cout << plus(a, b) << std::endl; }
"""
# Names that the standard of 2020 took: words of the language, and functions that `using namespace std` brings.
OF_2017 = """
#include <iostream>
using namespace std;
int requires(int concept) { return concept; }
int char8(int co_await) { return co_await; }
int main() {
    int co_yield; cin >> co_yield;
    int co_return; cin >> co_return; cout << requires(co_yield) + char8(co_return) << endl;
}
"""


@pytest.fixture(scope="module")
def patient(sandbox: Sandbox) -> CodeTests:
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    return CodeTests(CodeConfig(case_timeout_s=20.0), ScorersConfig(), sandbox)


@pytest.mark.prove(cases=("2020", "2020, many headers", "none"))
@pytest.mark.parametrize(
    ("program", "value"),
    [(SHORT_2020, 1.0), (OF_2020, 1.0), (OF_2017, 1.0), (OF_2017.replace("co_yield;", "co_yield"), 0.0)],
    ids=["2020", "2020, many headers", "2017", "none"],
)
def test_a_program_of_either_standard_is_judged(patient: CodeTests, program: str, value: float) -> None:
    score = judged(patient, program, TWO_NUMBERS, tag="cpp")
    assert score.value == value, score.reason
    assert ("does not compile" in score.reason) is (value == 0.0)
