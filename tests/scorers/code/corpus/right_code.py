"""Right answers as honest people write them: every one deserves 1."""

from __future__ import annotations

from tests.scorers.code.corpus.right_functions import CALLED_CASES
from tests.scorers.code.corpus.rows import ADD, EVERY, RIGHT, Case, case, fenced, row, stdio

SUM = stdio(("3 5\n", "8\n"), ("-10 4\n", "-6\n"))
LINES = stdio(("1\n2\n3\n", "6\n"), ("", "0\n"), ("5", "5\n"))
TREE = stdio(("30000\n", "30000\n"))

READING = [
    case("sys.stdin.buffer", SUM, "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))", 1.0),
    case("open(0)", SUM, "print(sum(map(int, open(0).read().split())))", 1.0),
    case("os.read", SUM, "import os\nprint(sum(map(int, os.read(0, 1000).split())))", 1.0),
    case("/dev/stdin", SUM, "print(sum(map(int, open('/dev/stdin').read().split())))", 1.0),
    case(
        "fileinput",
        SUM,
        "import fileinput\nprint(sum(int(w) for line in fileinput.input() for w in line.split()))",
        1.0,
    ),
    case(
        "input until EOFError",
        LINES,
        """
        total = 0
        while True:
            try:
                total += int(input())
            except EOFError:
                break
        print(total)
        """,
        1.0,
    ),
    case(
        "for line in sys.stdin",
        LINES,
        "import sys\nprint(sum(int(line) for line in sys.stdin if line.strip()))",
        1.0,
    ),
    case(
        "input is rebound to readline",
        SUM,
        """
        import sys
        input = sys.stdin.readline
        print(sum(map(int, input().split())))
        """,
        1.0,
    ),
    case(
        "input in bytes, output in bytes",
        SUM,
        """
        import io, os, sys
        input = io.BytesIO(os.read(0, os.fstat(0).st_size or 65536)).readline
        os.write(1, str(sum(map(int, input().split()))).encode() + b"\\n")
        """,
        1.0,
    ),
    case(
        "mmap where standard input is a file",
        SUM,
        """
        import mmap, sys
        try:
            data = mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:]
        except (OSError, ValueError):
            data = sys.stdin.buffer.read()
        print(sum(map(int, data.split())))
        """,
        1.0,
    ),
    case(
        "CRLF in the input",
        stdio(("3 5\r\nab\r\n", "8 ab\n")),
        "a, b = map(int, input().split())\nprint(a + b, input().strip())",
        1.0,
    ),
    case(
        "CRLF in the output",
        stdio(("3 5\n", "8\n9\n")),
        "import sys\nsys.stdout.write('8\\r\\n9\\r\\n')",
        1.0,
    ),
    case(
        "no newline at the end", SUM, "import sys\nsys.stdout.write(str(sum(map(int, input().split()))))", 1.0
    ),
    case(
        "spaces and empty lines at the ends", SUM, "print(sum(map(int, input().split())), ' ')\nprint()", 1.0
    ),
    case(
        "main guard",
        SUM,
        """
        def main():
            print(sum(map(int, input().split())))

        if __name__ == "__main__":
            main()
        """,
        1.0,
    ),
    case(
        "sys.exit(main())",
        SUM,
        """
        import sys

        def main():
            print(sum(map(int, input().split())))
            return 0

        sys.exit(main())
        """,
        1.0,
    ),
    case("exit() after the answer", SUM, "print(sum(map(int, input().split())))\nexit()", 1.0),
    case(
        "os._exit after a flush",
        SUM,
        "import os\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
        1.0,
    ),
    case(
        "warnings on standard error",
        SUM,
        """
        import sys, warnings
        warnings.warn("old")
        print("debug", file=sys.stderr)
        print(sum(map(int, input().split())))
        """,
        1.0,
    ),
    case(
        "output buffered by hand",
        stdio(("3\n", "0\n1\n2\n")),
        "import sys\nout = [str(i) for i in range(int(input()))]\nsys.stdout.write('\\n'.join(out))",
        1.0,
    ),
    case("unicode", stdio(("héllo\n", "OLLÉH ✓ 字 😀\n")), "print(input()[::-1].upper(), '✓ 字 😀')", 1.0),
    case("big integers", stdio(("10\n", f"{7**1000}\n")), "print(7 ** (int(input()) * 100))", 1.0),
    case(
        "floats within tolerance",
        stdio(("2\n", "1.4142135623730951\n")),
        "print('%.9f' % (float(input()) ** 0.5))",
        1.0,
    ),
    case(
        "a megabyte of output",
        stdio(("150000\n", "".join(f"{i}\n" for i in range(150000)))),
        "for i in range(int(input())):\n    print(i)",
        1.0,
    ),
    case(
        "a megabyte of input",
        stdio((" ".join(map(str, range(150000))), str(sum(range(150000))))),
        "print(sum(map(int, input().split())))",
        1.0,
    ),
]

MACHINE = [
    case(
        "deep recursion",
        TREE,
        """
        import sys
        sys.setrecursionlimit(10 ** 6)

        def depth(n):
            return 0 if n == 0 else 1 + depth(n - 1)

        print(depth(int(input())))
        """,
        1.0,
    ),
    case(
        "recursion in a thread with a large stack",
        TREE,
        """
        import sys, threading
        sys.setrecursionlimit(10 ** 7)
        threading.stack_size(128 * 1024 * 1024)

        def depth(n):
            return 0 if n == 0 else 1 + depth(n - 1)

        def main():
            print(depth(int(input())))

        thread = threading.Thread(target=main)
        thread.start()
        thread.join()
        """,
        1.0,
    ),
    case(
        "threads",
        SUM,
        """
        import threading
        total, lock = 0, threading.Lock()

        def work(n):
            global total
            with lock:
                total += n

        threads = [threading.Thread(target=work, args=(int(w),)) for w in input().split()]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(total)
        """,
        1.0,
    ),
    case(
        "a process of itself",
        SUM,
        """
        import subprocess, sys
        if len(sys.argv) > 1:
            print(int(sys.argv[1]) + int(sys.argv[2]))
        else:
            print(subprocess.run([sys.executable, __file__, *input().split()], capture_output=True, text=True).stdout)
        """,
        1.0,
    ),
    case(
        "multiprocessing",
        SUM,
        """
        import multiprocessing

        def double(n):
            return 2 * n

        if __name__ == "__main__":
            with multiprocessing.Pool(2) as pool:
                print(sum(pool.map(double, map(int, input().split()))) // 2)
        """,
        1.0,
    ),
    case(
        "concurrent.futures",
        SUM,
        """
        from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
        with ThreadPoolExecutor() as pool:
            numbers = list(pool.map(int, input().split()))
        with ProcessPoolExecutor(2) as pool:
            print(sum(pool.map(abs, numbers)) if min(numbers) >= 0 else sum(numbers))
        """,
        1.0,
    ),
    case(
        "asyncio",
        SUM,
        """
        import asyncio

        async def number(word):
            await asyncio.sleep(0)
            return int(word)

        async def main():
            print(sum(await asyncio.gather(*map(number, input().split()))))

        asyncio.run(main())
        """,
        1.0,
    ),
    case(
        "a file in the scratch",
        SUM,
        """
        import tempfile
        with open("numbers.txt", "w") as file:
            file.write(input())
        with tempfile.TemporaryFile("w+") as file:
            file.write(open("numbers.txt").read())
            file.seek(0)
            print(sum(map(int, file.read().split())))
        """,
        1.0,
    ),
    case(
        "random, time and the standard library",
        SUM,
        """
        import bisect, collections, datetime, decimal, fractions, functools, heapq, itertools, json, math, random, re
        import statistics, string, time, typing
        random.seed(time.time())
        print(functools.reduce(lambda a, b: a + b, map(int, input().split())))
        """,
        1.0,
    ),
    case(
        "its own signal handler and an alarm",
        SUM,
        """
        import signal
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.alarm(5)
        print(sum(map(int, input().split())))
        """,
        1.0,
    ),
    case("200 MB of memory", SUM, "big = bytearray(200 << 20)\nprint(sum(map(int, input().split())))", 1.0),
]

TEXTS = [
    Case(
        name="thinking before it",
        info=row(SUM, "code"),
        text="<think>\n```python\nprint(0)\n```\n</think>\n" + fenced(RIGHT["stdio"]),
        value=1.0,
    ),
    Case(
        name="a draft before it",
        info=row(SUM, "code"),
        text=fenced("print(0)") + "No:\n" + fenced(RIGHT["stdio"]),
        value=1.0,
    ),
    Case(
        name="sample output after it",
        info=row(SUM, "code"),
        text=fenced(RIGHT["stdio"]) + "It prints\n```text\n8\n```\n",
        value=1.0,
    ),
    Case(name="a fence without a tag", info=row(SUM, "code"), text=fenced(RIGHT["stdio"], ""), value=1.0),
    Case(
        name="Python with a capital", info=row(SUM, "code"), text=fenced(RIGHT["stdio"], "Python"), value=1.0
    ),
    Case(name="py", info=row(SUM, "code"), text=fenced(RIGHT["stdio"], "py"), value=1.0),
    Case(
        name="a space after the tag", info=row(SUM, "code"), text=fenced(RIGHT["stdio"], "python "), value=1.0
    ),
    Case(
        name="CRLF everywhere",
        info=row(SUM, "code"),
        text=fenced(RIGHT["stdio"]).replace("\n", "\r\n"),
        value=1.0,
    ),
    Case(
        name="a fence inside a string",
        info=row(stdio(("", "```\n")), "code"),
        text=fenced("print('`' * 3)"),
        value=1.0,
    ),
    Case(
        name="tabs, form feeds and a byte order mark",
        info=row(SUM, "code"),
        text=fenced("\ufeffif True:\n\ta, b = map(int, input().split())\n\f\n\tprint(a + b)"),
        value=1.0,
    ),
    Case(
        name="a coding cookie",
        info=row(SUM, "code"),
        text=fenced("# -*- coding: utf-8 -*-\n" + RIGHT["stdio"]),
        value=1.0,
    ),
]

CPP = {"language": "cpp"} | SUM
JAVASCRIPT = {"language": "javascript"} | SUM
OTHER_LANGUAGES = [
    case(
        "C++",
        CPP,
        "#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }",
        1.0,
    ),
    case(
        "C++ of the contests",
        {"language": "c++"} | SUM,
        """
        #include <bits/stdc++.h>
        using namespace std;
        int main() {
            ios::sync_with_stdio(false); cin.tie(nullptr);
            vector<long long> xs; long long x;
            while (cin >> x) xs.push_back(x);
            printf("%lld\\n", accumulate(xs.begin(), xs.end(), 0LL));
        }
        """,
        1.0,
    ),
    case(
        "JavaScript by lines",
        JAVASCRIPT,
        """
        const lines = require("fs").readFileSync(0, "utf8").split("\\n");
        console.log(lines[0].split(" ").map(Number).reduce((a, b) => a + b));
        """,
        1.0,
    ),
    case(
        "JavaScript by readline",
        {"language": "js"} | SUM,
        """
        const rl = require("readline").createInterface({ input: process.stdin });
        rl.on("line", line => { const [a, b] = line.split(" ").map(Number); console.log(a + b); });
        """,
        1.0,
    ),
]

PLAIN = [case(f"the sum [{shape}]", ADD[shape], RIGHT[shape], 1.0) for shape in EVERY]
RIGHT_CASES: list[Case] = [*PLAIN, *READING, *MACHINE, *CALLED_CASES, *TEXTS, *OTHER_LANGUAGES]
