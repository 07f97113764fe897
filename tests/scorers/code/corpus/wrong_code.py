"""Wrong answers as honest people write them: none deserves anything where all cases count.

`FRACTIONS` are the same mistakes on rows whose users know the share of passed cases.
"""

from __future__ import annotations

from tests.scorers.code.corpus.rows import (
    ADD,
    EVERY,
    SUM,
    WRONG,
    Case,
    asserts,
    calls,
    case,
    cases,
    cases_apart,
    fenced,
    stdio,
    texts,
)

CHECK_ORDER = "def check(candidate):\n    xs = [3, 1, 2]\n    candidate(xs)\n    assert xs == [1, 2, 3]\n\ncheck(order)\n"
CPP, JAVASCRIPT = ({"language": name} | SUM for name in ("cpp", "javascript"))

PRINTED = {
    "off by one": "print(sum(map(int, input().split())) + 1)",
    "a wrong constant": "print(8)",
    "prints too much": "print('The sum is', sum(map(int, input().split())))",
    "prints a line too much": "print(sum(map(int, input().split())))\nprint('done')",
    "prints nothing": "sum(map(int, input().split()))",
    "asks with a prompt": "a, b = map(int, input('numbers? ').split())\nprint(a + b)",
    "right for the first case only": "a, b = map(int, input().split())\nprint(abs(a) + abs(b))",
    "right on standard error": "import sys\nprint(sum(map(int, input().split())), file=sys.stderr)",
    "crashes after the right output": "print(sum(map(int, input().split())), flush=True)\nraise ValueError",
    "ends with 1 after the right output": "import sys\nprint(sum(map(int, input().split())))\nsys.exit(1)",
    "does not compile": "print(sum(map(int, input().split()))",
    "loops for ever in one case": "a, b = map(int, input().split())\nwhile a < 0:\n    pass\nprint(a + b)",
    "reads past the end": "print(int(input()) + int(input()))",
    "too much memory": "big = bytearray(900 << 20)\nprint(sum(map(int, input().split())))",
    "a module that is not there": "import no_such_module\nprint(sum(map(int, input().split())))",
}
CALLED = {
    "prints instead of returning": "def add(a, b):\n    print(a + b)",
    "returns nothing": "def add(a, b):\n    a + b",
    "returns a string for an integer": "def add(a, b):\n    return str(a + b)",
    "another name": "def plus(a, b):\n    return a + b",
    "another number of arguments": "def add(numbers):\n    return sum(numbers)",
    "raises": "def add(a, b):\n    raise NotImplementedError",
    "loops for ever when called": "def add(a, b):\n    while True:\n        pass",
    "recursion without an end": "def add(a, b):\n    return add(a, b)",
    "loops for ever when loaded": "while True:\n    pass\n\ndef add(a, b):\n    return a + b",
}
# fmt: off
APART = {
    "lines in another order": (stdio(("3\n", "1\n2\n3\n")), "for i in range(int(input()), 0, -1):\n    print(i)"),
    "one line for several": (stdio(("3\n", "1\n2\n3\n")), "print(*range(1, int(input()) + 1))"),
    "a line is missing": (stdio(("3\n", "1\n2\n3\n")), "for i in range(1, int(input())):\n    print(i)"),
    "words run together": (stdio(("ab c\n", "ab c\n")), "print(input().replace(' ', ''))"),
    "a large integer through a float": (stdio(("", f"{10**17 + 1}\n")), "print(int(1e17 + 1))"),
    "a float too far off": (stdio(("2\n", "1.4142135\n")), "print(round(float(input()) ** 0.5, 2))"),
    "another case of letters": (stdio(("", "abC\n")), "print('abc')"),
    "NO for YES": (stdio(("1\n", "YES\n"), ("2\n", "NO\n")), "print('NO')"),
    "NaN for a number": (stdio(("", "1.5\n")), "print(float('nan'))"),
    "another order": (calls("order", ([[3, 1, 2]], [1, 2, 3])), "def order(xs):\n    return sorted(xs)[::-1]"),
    "mutates instead of returning": (calls("order", ([[3, 1, 2]], [1, 2, 3])), "def order(xs):\n    xs.sort()"),
    "the wrong exception": (
        asserts("try:\n    root(-1)\n    assert False, 'no exception'\nexcept ValueError:\n    pass"),
        "def root(n):\n    raise KeyError(n)"),
    "no exception": (
        asserts("try:\n    root(-1)\n    assert False, 'no exception'\nexcept ValueError:\n    pass"),
        "def root(n):\n    return 0"),
    "returns instead of mutating": ({"functional": CHECK_ORDER}, "def order(xs):\n    return sorted(xs)"),
    "an element too many": (calls("f", ([2], [0, 1])), "def f(n):\n    return list(range(n + 1))"),
    "remembers the last call": (
        asserts("assert f(1) == [1]", "assert f(2) == [2]"), "def f(n, xs=[]):\n    xs.append(n)\n    return xs"),
    "an integer for a float's neighbour": (calls("half", ([3], 1.5)), "def half(n):\n    return n // 2"),
    "None for False": (
        asserts("assert is_odd(2) is False", "assert is_odd(3) is True"),
        "def is_odd(n):\n    if n % 2:\n        return True"),
    "a list for a tuple in an assert": (asserts("assert pair(1, 2) == (1, 2)"), "def pair(a, b):\n    return [a, b]"),
    "one test of several fails": (
        {"pytest": "from solution import add\n\ndef test_a():\n    assert add(0, 0) == 0\n\ndef test_b():\n    assert add(1, 2) == 3\n"},
        "def add(a, b):\n    return 0"),
    "the answer is not what the tests import": (
        {"pytest": "from solution import add\n\ndef test_a():\n    assert add(1, 2) == 3\n"}, "x = 3"),
    "JavaScript that subtracts": (
        JAVASCRIPT,
        'const [a, b] = require("fs").readFileSync(0, "utf8").split(" ").map(Number);\nconsole.log(a - b);'),
    "JavaScript that throws": (JAVASCRIPT, "throw new Error('no');"),
}
# fmt: on
IN_CPP = {
    "C++ that subtracts": "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a - b; }",
    "C++ that does not compile": "#include <iostream>\nint main() { std::cout << nothing; }",
    "C++ that crashes": "#include <cstdlib>\nint main() { std::abort(); }",
    "C++ that returns 3": "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; return 3; }",
}
TEXTS = {
    "right, and not in a fence": "print(sum(map(int, input().split())))",
    "right, and the fence is never closed": "```python\nprint(sum(map(int, input().split())))\n",
    "right, and taken back": fenced("print(sum(map(int, input().split())))") + "No:\n" + fenced("print(0)"),
    "right in the thinking only": "<think>"
    + fenced("print(sum(map(int, input().split())))")
    + "</think>\nDone.",
    "another language": fenced(
        "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"
    ),
    "prose in the fence": fenced("Read both numbers and print their sum."),
}
# fmt: off
SHARES = {
    "a share: right for the first case only": (SUM, "a, b = map(int, input().split())\nprint(abs(a) + abs(b))", 0.5),
    "a share: II-Thought's table": (
        stdio(("3\n5\n", "8\n"), ("-10\n4\n", "-6\n"), ("1\n1\n", "3\n")),
        "print(sum(map(int, open(0).read().split())))", 2 / 3),
    "a share: one assert of three": (
        asserts("assert f(1) == 1", "assert f(2) == 4", "assert f(3) == 9"), "def f(n):\n    return 1", 1 / 3),
    "a share: one call of two": (calls("f", ([1], 1), ([2], 4)), "def f(n):\n    return n", 0.5),
    "a share: crashes in one call of two": (calls("f", ([1], 1), ([0], 0)), "def f(n):\n    return n // n", 0.5),
    "a share: ends itself in one call of three": (
        calls("f", ([1], 1), ([0], 0), ([3], 3)), "import os\n\ndef f(n):\n    return n if n else os._exit(0)", 2 / 3),
}
# fmt: on

FRACTIONS = [
    case(name, answer, source, value, row_type="code_verifiable")
    for name, (answer, source, value) in SHARES.items()
]
WRONG_CASES: list[Case] = [
    *(case(f"the difference [{shape}]", ADD[shape], WRONG[shape], 0.0) for shape in EVERY),
    *cases(SUM, 0.0, PRINTED),
    *cases(calls("add", ([3, 5], 8)), 0.0, CALLED),
    *cases_apart(0.0, APART),
    *texts(SUM, 0.0, TEXTS),
    *cases(CPP, 0.0, IN_CPP),
]
