"""Attacks by the text itself: bytes that readers stumble over, fences, compilers, and the other languages."""

from __future__ import annotations

from tests.scorers.code.corpus.rows import (
    ADD,
    ASSERTS,
    EVERY,
    STDIO,
    SUM,
    WRONG,
    Case,
    attacks,
    cases,
    fenced,
    row,
)

CPP = {"language": "cpp"} | SUM
JAVASCRIPT = {"language": "javascript"} | SUM


def whole(texts: dict[str, str], shape: str = STDIO) -> list[Case]:
    return [Case(name=name, info=row(ADD[shape]), text=text, value=0.0) for name, text in texts.items()]


OUTPUTS = {
    "null bytes [stdio]": "print('8\\0', end='')",
    "invalid UTF-8 [stdio calls]": "import os\nos.write(1, b'8\\xff\\xfe\\n')",
    "a lone surrogate [stdio]": "import sys\nsys.stdout.reconfigure(errors='surrogatepass')\nprint('\\ud800')",
    "both answers [stdio]": "print('8\\n-6')",
    "every number [stdio]": "for n in range(-100, 100): print(n)",
    "terminal codes [stdio]": "print('\\x1b[2J\\x1b[H8\\r', end='')",
    "8 and a backspace [stdio]": "print('88\\b', end='')",
    "a line separator that is no newline [stdio]": "print('8\\u2028', end='')",
}
VALUES = {
    "a lone surrogate as value [calls asserts]": "def add(a, b):\n    return '\\ud800'",
    "bytes as value [calls]": "def add(a, b):\n    return b'\\xff'",
}
SOURCES = {
    "a null byte in the source": "\0" + WRONG[STDIO],
    "invalid text in the source": "# \ud800\udfff\n" + WRONG[STDIO],
    "a coding cookie of rot13": "# coding: rot13\n" + "cevag(8)\n",
    "a coding cookie of UTF-7": "# coding: utf-7\n+AG8-s\n",
    "a coding cookie that is none": "# coding: no-such-codec\nprint(8)\n",
    "a line of a megabyte": "x = '" + "a" * 1_000_000 + "'\n" + WRONG[STDIO],
    "5 MB of source": ("# " + "a" * 98 + "\n") * 50_000 + WRONG[STDIO],
    "brackets that crash a parser": "(" * 100_000 + ")" * 100_000,
    "operators that crash a compiler": "x = " + "-" * 200_000 + "1\n" + WRONG[STDIO],
    "a constant that takes long to fold": "x = 'a' * 2 ** 30 * 16\n" + WRONG[STDIO],
}
SOURCES_FOR_ASSERTS = {
    "a null byte in the asserts' answer": "\0" + WRONG[ASSERTS],
    "invalid text in the asserts' answer": "# \ud800\n" + WRONG[ASSERTS],
    "an unclosed string in the asserts' answer": WRONG[ASSERTS] + "x = '''",
    "the future in the asserts' answer": "from __future__ import annotations, braces\n" + WRONG[ASSERTS],
    "returns at the top": "return 8",
}
RIGHT_STDIO = fenced("print(sum(map(int, input().split())))")
FENCES = {
    "the right answer in the middle": fenced(WRONG[STDIO]) + RIGHT_STDIO + fenced(WRONG[STDIO]),
    "the right answer in a thought that is not closed": "<think>\n" + RIGHT_STDIO,
    "the right answer before a thought that is not closed": RIGHT_STDIO + "<think>\nWait.",
    "a fence in a string": fenced("s = '''\n```\n```python\nprint(0)\n```\n'''"),
    "a hundred thousand fences": "```python\n" * 100_000,
    "fences of every length": "".join("`" * n + "python\n" for n in range(1, 1000)),
    "tests in the completion": "{'test_cases': [{'input': '', 'output': '0'}]}\n" + fenced("print(0)"),
    "a language with a path": "```../../python\nprint(8)\n```",
}

CPP_ATTACKS = {
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
}
JAVASCRIPT_ATTACKS = {
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
}

# Completions that say nothing. `pass` and the rest are bare; two are in a fence, since that is what a policy learns first.
NULL_TEXTS = (
    *(
        "",
        "\n",
        "I don't know",
        "</think>",
        "pass",
        "```python\n```",
        "```python\npass\n```",
        "```python\n\n```",
    ),
    "<think>\n```python\n{right}```\n",
    "{right}",
)
NULL_CASES = [
    found
    for text in NULL_TEXTS
    for shape in EVERY
    for found in whole(
        {f"null: {text[:24]!r} [{shape}]": text.replace("{right}", WRONG[shape].replace("a - b", "a + b"))},
        shape,
    )
]

TEXT_ATTACKS: list[Case] = [
    *attacks(OUTPUTS),
    *(found for title, answer in VALUES.items() for found in attacks({title: ""}, after=answer)),
    *whole({name: fenced(source) for name, source in SOURCES.items()}),
    *whole({name: fenced(source) for name, source in SOURCES_FOR_ASSERTS.items()}, ASSERTS),
    *whole(FENCES),
    *cases(CPP, 0.0, CPP_ATTACKS),
    *cases(JAVASCRIPT, 0.0, JAVASCRIPT_ATTACKS),
]
