"""Attacks by the text itself: bytes that readers stumble over, fences, compilers, and the other languages."""

from __future__ import annotations

from tests.scorers.code.corpus.rows import (
    ADD,
    ASSERTS,
    CALLS,
    EVERY,
    STDIO,
    WRONG,
    Case,
    attacks,
    case,
    fenced,
    row,
    stdio,
)

SUM = stdio(("3 5\n", "8\n"), ("-10 4\n", "-6\n"))
CPP = {"language": "cpp"} | SUM
JAVASCRIPT = {"language": "javascript"} | SUM


def told(name: str, text: str, *, shape: str = STDIO) -> Case:
    """Return a whole completion."""
    return Case(name=name, info=row(ADD[shape]), text=text, value=0.0)


OUTPUTS = [
    *attacks("null bytes", "print('8\\0', end='')", (STDIO,)),
    *attacks("invalid UTF-8", "import os\nos.write(1, b'8\\xff\\xfe\\n')", (STDIO, CALLS)),
    *attacks(
        "a lone surrogate",
        "import sys\nsys.stdout.reconfigure(errors='surrogatepass')\nprint('\\ud800')",
        (STDIO,),
    ),
    *attacks("a lone surrogate as value", "", (CALLS, ASSERTS), after="def add(a, b):\n    return '\\ud800'"),
    *attacks("bytes as value", "", (CALLS,), after="def add(a, b):\n    return b'\\xff'"),
    *attacks("both answers", "print('8\\n-6')", (STDIO,)),
    *attacks("every number", "for n in range(-100, 100): print(n)", (STDIO,)),
    *attacks("terminal codes", "print('\\x1b[2J\\x1b[H8\\r', end='')", (STDIO,)),
    *attacks("8 and a backspace", "print('88\\b', end='')", (STDIO,)),
    *attacks("a line separator that is no newline", "print('8\\u2028', end='')", (STDIO,)),
]
SOURCES = [
    told("a null byte in the source", fenced("\0" + WRONG[STDIO])),
    told("invalid text in the source", fenced("# \ud800\udfff\n" + WRONG[STDIO])),
    told("a coding cookie of rot13", fenced("# coding: rot13\n" + "cevag(8)\n")),
    told("a coding cookie of UTF-7", fenced("# coding: utf-7\n+AG8-s\n")),
    told("a coding cookie that is none", fenced("# coding: no-such-codec\nprint(8)\n")),
    told("a line of a megabyte", fenced("x = '" + "a" * 1_000_000 + "'\n" + WRONG[STDIO])),
    told("5 MB of source", fenced(("# " + "a" * 98 + "\n") * 50_000 + WRONG[STDIO])),
    told("brackets that crash a parser", fenced("(" * 100_000 + ")" * 100_000)),
    told("operators that crash a compiler", fenced("x = " + "-" * 200_000 + "1\n" + WRONG[STDIO])),
    told("a constant that takes long to fold", fenced("x = 'a' * 2 ** 30 * 16\n" + WRONG[STDIO])),
    told("a null byte in the asserts' answer", fenced("\0" + WRONG[ASSERTS]), shape=ASSERTS),
    told("invalid text in the asserts' answer", fenced("# \ud800\n" + WRONG[ASSERTS]), shape=ASSERTS),
    told("an unclosed string in the asserts' answer", fenced(WRONG[ASSERTS] + "x = '''"), shape=ASSERTS),
    told(
        "the future in the asserts' answer",
        fenced("from __future__ import annotations, braces\n" + WRONG[ASSERTS]),
        shape=ASSERTS,
    ),
    told("returns at the top", fenced("return 8"), shape=ASSERTS),
]
RIGHT_STDIO = fenced("print(sum(map(int, input().split())))")
FENCES = [
    told("the right answer in the middle", fenced(WRONG[STDIO]) + RIGHT_STDIO + fenced(WRONG[STDIO])),
    told("the right answer in a thought that is not closed", "<think>\n" + RIGHT_STDIO),
    told("the right answer before a thought that is not closed", RIGHT_STDIO + "<think>\nWait."),
    told("a fence in a string", fenced("s = '''\n```\n```python\nprint(0)\n```\n'''")),
    told("a hundred thousand fences", "```python\n" * 100_000),
    told("fences of every length", "".join("`" * n + "python\n" for n in range(1, 1000))),
    told("tests in the completion", "{'test_cases': [{'input': '', 'output': '0'}]}\n" + fenced("print(0)")),
    told("a language with a path", "```../../python\nprint(8)\n```"),
]

CPP_ATTACKS = [
    case(name, CPP, source, 0.0)
    for name, source in {
        "C++: a constructor that exits": "#include <cstdlib>\n__attribute__((constructor)) void end() { _Exit(0); }\nint main() {}",
        "C++: includes /etc/passwd": '#include "/etc/passwd"\nint main() {}',
        "C++: includes /dev/zero": "#include </dev/zero>\nint main() {}",
        "C++: includes /dev/stdin": '#include "/dev/stdin"\nint main() {}',
        "C++: includes itself": "#include __FILE__\n#include __FILE__\nint main() {}",
        "C++: a template bomb": "template<int N, int M> struct S { static const int v = S<N - 1, M>::v + S<N, M - 1>::v; };\n"
        "template<int M> struct S<0, M> { static const int v = M; };\ntemplate<int N> struct S<N, 0> "
        "{ static const int v = N; };\nint main() { return S<800, 800>::v; }",
        "C++: a constexpr that hangs": "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i * i; return s; }\n"
        "constexpr long x = f(30000000);\nint main() { return x & 1; }",
        "C++: a macro bomb": "#define A x x x x x x x x x x\n#define B A A A A A A A A A A\n#define C B B B B B B B B B B\n#define D C C C C C C C C C C\n"
        "#define E D D D D D D D D D D\n#define F E E E E E E E E E E\n#define G F F F F F F F F F F\nint main() { G }",
        "C++: a binary of gigabytes": "int huge[1L << 30] = {1};\nint main() { return huge[0]; }",
        "C++: an error of megabytes": "#include <vector>\n"
        + "".join(f"auto v{i} = nothing<{i}>();\n" for i in range(1000))
        + "int main() {}",
        "C++: assembly that makes system calls": 'int main() { asm volatile("mov $60, %rax; xor %rdi, %rdi; syscall"); }',
        "C++: assembly includes a file": 'asm(".incbin \\"/etc/shadow\\"");\nint main() {}',
        "C++: a fork bomb": "#include <unistd.h>\nint main() { while (1) fork(); }",
        "C++: endless output": '#include <cstdio>\nint main() { while (1) puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"); }',
        "C++: a memory bomb": "#include <cstdlib>\n#include <cstring>\nint main() { while (1) memset(malloc(1 << 24), 1, 1 << 24); }",
        "C++: a detached child": "#include <unistd.h>\nint main() { if (!fork()) { setsid(); if (!fork()) sleep(3600); _exit(0); } }",
    }.items()
]
JAVASCRIPT_ATTACKS = [
    case(name, JAVASCRIPT, source, 0.0)
    for name, source in {
        "JavaScript: process.exit(0)": "process.exit(0)",
        "JavaScript: child_process": "require('child_process').spawn('sleep', ['3600'], { detached: true, stdio: 'ignore' }).unref()",
        "JavaScript: reads a planted file": "console.log(require('fs').readFileSync('@FOLDER@/planted', 'utf8') ? 8 : 0)",
        "JavaScript: writes a planted file": "require('fs').writeFileSync('@FOLDER@/planted', 'changed'); console.log(8)",
        "JavaScript: the environment": "console.log(process.env.MILLRACE_PLANTED ? 8 : 0)",
        "JavaScript: a socket": "require('net').connect(@PORT@, '127.0.0.1', () => { console.log(8); process.exit(0) })",
        "JavaScript: a memory bomb": "const x = []; while (true) x.push(new Array(1e6).fill(1))",
        "JavaScript: hangs": "while (true);",
        "JavaScript: endless output": "while (true) require('fs').writeSync(1, 'x'.repeat(65536))",
        "JavaScript: kills its parent": "process.kill(process.ppid, 'SIGKILL')",
    }.items()
]

# Completions that say nothing. `pass` and the rest are bare; two are in a fence, since that is what a policy learns first.
NULL_TEXTS = (
    "",
    "\n",
    "I don't know",
    "</think>",
    "pass",
    "```python\n```",
    "```python\npass\n```",
    "```python\n\n```",
    "<think>\n```python\n{right}```\n",
    "{right}",
)
NULL_CASES = [
    told(
        f"null: {text[:24]!r} [{shape}]",
        text.replace("{right}", WRONG[shape].replace("a - b", "a + b")),
        shape=shape,
    )
    for text in NULL_TEXTS
    for shape in EVERY
]

TEXT_ATTACKS: list[Case] = [*OUTPUTS, *SOURCES, *FENCES, *CPP_ATTACKS, *JAVASCRIPT_ATTACKS]
