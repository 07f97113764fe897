"""Wrong answers as honest people write them: none deserves anything where all cases count.

`FRACTIONS` are the same mistakes on rows whose users know the share of passed cases.
"""

from __future__ import annotations

from tests.scorers.code.corpus.rows import ADD, EVERY, WRONG, Case, asserts, calls, case, fenced, row, stdio

SUM = stdio(("3 5\n", "8\n"), ("-10 4\n", "-6\n"))
CHECK_ORDER = "def check(candidate):\n    xs = [3, 1, 2]\n    candidate(xs)\n    assert xs == [1, 2, 3]\n\ncheck(order)\n"

PRINTED = [
    case("off by one", SUM, "print(sum(map(int, input().split())) + 1)", 0.0),
    case("a wrong constant", SUM, "print(8)", 0.0),
    case("prints too much", SUM, "print('The sum is', sum(map(int, input().split())))", 0.0),
    case("prints a line too much", SUM, "print(sum(map(int, input().split())))\nprint('done')", 0.0),
    case("prints nothing", SUM, "sum(map(int, input().split()))", 0.0),
    case("asks with a prompt", SUM, "a, b = map(int, input('numbers? ').split())\nprint(a + b)", 0.0),
    case(
        "right for the first case only", SUM, "a, b = map(int, input().split())\nprint(abs(a) + abs(b))", 0.0
    ),
    case(
        "right on standard error",
        SUM,
        "import sys\nprint(sum(map(int, input().split())), file=sys.stderr)",
        0.0,
    ),
    case(
        "crashes after the right output",
        SUM,
        "print(sum(map(int, input().split())), flush=True)\nraise ValueError",
        0.0,
    ),
    case(
        "ends with 1 after the right output",
        SUM,
        "import sys\nprint(sum(map(int, input().split())))\nsys.exit(1)",
        0.0,
    ),
    case("does not compile", SUM, "print(sum(map(int, input().split()))", 0.0),
    case(
        "loops for ever in one case",
        SUM,
        "a, b = map(int, input().split())\nwhile a < 0:\n    pass\nprint(a + b)",
        0.0,
    ),
    case("reads past the end", SUM, "print(int(input()) + int(input()))", 0.0),
    case(
        "lines in another order",
        stdio(("3\n", "1\n2\n3\n")),
        "for i in range(int(input()), 0, -1):\n    print(i)",
        0.0,
    ),
    case("one line for several", stdio(("3\n", "1\n2\n3\n")), "print(*range(1, int(input()) + 1))", 0.0),
    case(
        "a line is missing",
        stdio(("3\n", "1\n2\n3\n")),
        "for i in range(1, int(input())):\n    print(i)",
        0.0,
    ),
    case("words run together", stdio(("ab c\n", "ab c\n")), "print(input().replace(' ', ''))", 0.0),
    case("a large integer through a float", stdio(("", f"{10**17 + 1}\n")), "print(int(1e17 + 1))", 0.0),
    case("a float too far off", stdio(("2\n", "1.4142135\n")), "print(round(float(input()) ** 0.5, 2))", 0.0),
    case("another case of letters", stdio(("", "abC\n")), "print('abc')", 0.0),
    case("NO for YES", stdio(("1\n", "YES\n"), ("2\n", "NO\n")), "print('NO')", 0.0),
    case("NaN for a number", stdio(("", "1.5\n")), "print(float('nan'))", 0.0),
    case("too much memory", SUM, "big = bytearray(900 << 20)\nprint(sum(map(int, input().split())))", 0.0),
    case(
        "a module that is not there", SUM, "import no_such_module\nprint(sum(map(int, input().split())))", 0.0
    ),
]

RETURNED = [
    case("prints instead of returning", calls("add", ([3, 5], 8)), "def add(a, b):\n    print(a + b)", 0.0),
    case("returns nothing", calls("add", ([3, 5], 8)), "def add(a, b):\n    a + b", 0.0),
    case(
        "returns a string for an integer",
        calls("add", ([3, 5], 8)),
        "def add(a, b):\n    return str(a + b)",
        0.0,
    ),
    case("another name", calls("add", ([3, 5], 8)), "def plus(a, b):\n    return a + b", 0.0),
    case(
        "another number of arguments",
        calls("add", ([3, 5], 8)),
        "def add(numbers):\n    return sum(numbers)",
        0.0,
    ),
    case("raises", calls("add", ([3, 5], 8)), "def add(a, b):\n    raise NotImplementedError", 0.0),
    case(
        "another order",
        calls("order", ([[3, 1, 2]], [1, 2, 3])),
        "def order(xs):\n    return sorted(xs)[::-1]",
        0.0,
    ),
    case(
        "mutates instead of returning",
        calls("order", ([[3, 1, 2]], [1, 2, 3])),
        "def order(xs):\n    xs.sort()",
        0.0,
    ),
    case(
        "returns instead of mutating",
        {"functional": CHECK_ORDER},
        "def order(xs):\n    return sorted(xs)",
        0.0,
    ),
    case("an element too many", calls("f", ([2], [0, 1])), "def f(n):\n    return list(range(n + 1))", 0.0),
    case(
        "remembers the last call",
        asserts("assert f(1) == [1]", "assert f(2) == [2]"),
        "def f(n, xs=[]):\n    xs.append(n)\n    return xs",
        0.0,
    ),
    case(
        "an integer for a float's neighbour",
        calls("half", ([3], 1.5)),
        "def half(n):\n    return n // 2",
        0.0,
    ),
    case(
        "None for False",
        asserts("assert is_odd(2) is False", "assert is_odd(3) is True"),
        "def is_odd(n):\n    if n % 2:\n        return True",
        0.0,
    ),
    case(
        "a list for a tuple in an assert",
        asserts("assert pair(1, 2) == (1, 2)"),
        "def pair(a, b):\n    return [a, b]",
        0.0,
    ),
    case(
        "the wrong exception",
        asserts("try:\n    root(-1)\n    assert False, 'no exception'\nexcept ValueError:\n    pass"),
        "def root(n):\n    raise KeyError(n)",
        0.0,
    ),
    case(
        "no exception",
        asserts("try:\n    root(-1)\n    assert False, 'no exception'\nexcept ValueError:\n    pass"),
        "def root(n):\n    return 0",
        0.0,
    ),
    case(
        "loops for ever when called",
        calls("add", ([3, 5], 8)),
        "def add(a, b):\n    while True:\n        pass",
        0.0,
    ),
    case("recursion without an end", calls("add", ([3, 5], 8)), "def add(a, b):\n    return add(a, b)", 0.0),
    case(
        "loops for ever when loaded",
        calls("add", ([3, 5], 8)),
        "while True:\n    pass\n\ndef add(a, b):\n    return a + b",
        0.0,
    ),
    case(
        "one test of several fails",
        {
            "pytest": "from solution import add\n\ndef test_a():\n    assert add(0, 0) == 0\n\n"
            "def test_b():\n    assert add(1, 2) == 3\n"
        },
        "def add(a, b):\n    return 0",
        0.0,
    ),
    case(
        "the answer is not what the tests import",
        {"pytest": "from solution import add\n\ndef test_a():\n    assert add(1, 2) == 3\n"},
        "x = 3",
        0.0,
    ),
]

TEXTS = [
    Case(
        name="right, and not in a fence",
        info=row(SUM, "code"),
        text="print(sum(map(int, input().split())))",
        value=0.0,
    ),
    Case(
        name="right, and the fence is never closed",
        info=row(SUM, "code"),
        text="```python\nprint(sum(map(int, input().split())))\n",
        value=0.0,
    ),
    Case(
        name="right, and taken back",
        info=row(SUM, "code"),
        text=fenced("print(sum(map(int, input().split())))") + "No:\n" + fenced("print(0)"),
        value=0.0,
    ),
    Case(
        name="right in the thinking only",
        info=row(SUM, "code"),
        text="<think>" + fenced("print(sum(map(int, input().split())))") + "</think>\nDone.",
        value=0.0,
    ),
    Case(
        name="another language",
        info=row(SUM, "code"),
        text=fenced("#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"),
        value=0.0,
    ),
    Case(
        name="prose in the fence",
        info=row(SUM, "code"),
        text=fenced("Read both numbers and print their sum."),
        value=0.0,
    ),
]

CPP = {"language": "cpp"} | SUM
JAVASCRIPT = {"language": "javascript"} | SUM
OTHER_LANGUAGES = [
    case(
        "C++ that subtracts",
        CPP,
        "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a - b; }",
        0.0,
    ),
    case("C++ that does not compile", CPP, "#include <iostream>\nint main() { std::cout << nothing; }", 0.0),
    case("C++ that crashes", CPP, "#include <cstdlib>\nint main() { std::abort(); }", 0.0),
    case(
        "C++ that returns 3",
        CPP,
        "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; return 3; }",
        0.0,
    ),
    case(
        "JavaScript that subtracts",
        JAVASCRIPT,
        """
        const [a, b] = require("fs").readFileSync(0, "utf8").split(" ").map(Number);
        console.log(a - b);
        """,
        0.0,
    ),
    case("JavaScript that throws", JAVASCRIPT, "throw new Error('no');", 0.0),
]

FRACTIONS = [
    case(
        "a share: right for the first case only",
        SUM,
        "a, b = map(int, input().split())\nprint(abs(a) + abs(b))",
        0.5,
        row_type="code_verifiable",
    ),
    case(
        "a share: II-Thought's table",
        stdio(("3\n5\n", "8\n"), ("-10\n4\n", "-6\n"), ("1\n1\n", "3\n")),
        "print(sum(map(int, open(0).read().split())))",
        2 / 3,
        row_type="code_verifiable",
    ),
    case(
        "a share: one assert of three",
        asserts("assert f(1) == 1", "assert f(2) == 4", "assert f(3) == 9"),
        "def f(n):\n    return 1",
        1 / 3,
        row_type="code_verifiable",
    ),
    case(
        "a share: one call of two",
        calls("f", ([1], 1), ([2], 4)),
        "def f(n):\n    return n",
        0.5,
        row_type="code_verifiable",
    ),
    case(
        "a share: crashes in one call of two",
        calls("f", ([1], 1), ([0], 0)),
        "def f(n):\n    return n // n",
        0.5,
        row_type="code_verifiable",
    ),
    case(
        "a share: ends itself in one call of three",
        calls("f", ([1], 1), ([0], 0), ([3], 3)),
        "import os\n\ndef f(n):\n    return n if n else os._exit(0)",
        2 / 3,
        row_type="code_verifiable",
    ),
]

PLAIN = [case(f"the difference [{shape}]", ADD[shape], WRONG[shape], 0.0) for shape in EVERY]
WRONG_CASES: list[Case] = [*PLAIN, *PRINTED, *RETURNED, *TEXTS, *OTHER_LANGUAGES]
