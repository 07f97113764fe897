"""Right answers as honest people write them: every one deserves 1."""

from __future__ import annotations

from tests.scorers.code.corpus.right_functions import CALLED_CASES
from tests.scorers.code.corpus.rows import (
    ADD,
    EVERY,
    RIGHT,
    SUM,
    Case,
    case,
    cases,
    cases_apart,
    fenced,
    stdio,
    texts,
)

LINES = stdio(("1\n2\n3\n", "6\n"), ("", "0\n"), ("5", "5\n"))
TREE = stdio(("30000\n", "30000\n"))
FENCE = stdio(("", "```\n"))
CPP, JAVASCRIPT = ({"language": name} | SUM for name in ("cpp", "javascript"))

ADDS = {
    "sys.stdin.buffer": "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))",
    "open(0)": "print(sum(map(int, open(0).read().split())))",
    "os.read": "import os\nprint(sum(map(int, os.read(0, 1000).split())))",
    "/dev/stdin": "print(sum(map(int, open('/dev/stdin').read().split())))",
    "fileinput": "import fileinput\nprint(sum(int(w) for line in fileinput.input() for w in line.split()))",
    "input is rebound to readline": "import sys\ninput = sys.stdin.readline\nprint(sum(map(int, input().split())))",
    "input in bytes, output in bytes": 'import io, os, sys\ninput = io.BytesIO(os.read(0, os.fstat(0).st_size or 65536)).readline\nos.write(1, str(sum(map(int, input().split()))).encode() + b"\\n")',
    "mmap where standard input is a file": "import mmap, sys\ntry:\n    data = mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:]\nexcept (OSError, ValueError):\n    data = sys.stdin.buffer.read()\nprint(sum(map(int, data.split())))",
    "no newline at the end": "import sys\nsys.stdout.write(str(sum(map(int, input().split()))))",
    "spaces and empty lines at the ends": "print(sum(map(int, input().split())), ' ')\nprint()",
    "main guard": 'def main():\n    print(sum(map(int, input().split())))\n\nif __name__ == "__main__":\n    main()',
    "sys.exit(main())": "import sys\n\ndef main():\n    print(sum(map(int, input().split())))\n    return 0\n\nsys.exit(main())",
    "exit() after the answer": "print(sum(map(int, input().split())))\nexit()",
    "os._exit after a flush": "import os\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
    "warnings on standard error": 'import sys, warnings\nwarnings.warn("old")\nprint("debug", file=sys.stderr)\nprint(sum(map(int, input().split())))',
    "threads": "import threading\ntotal, lock = 0, threading.Lock()\n\ndef work(n):\n    global total\n    with lock:\n        total += n\n\nthreads = [threading.Thread(target=work, args=(int(w),)) for w in input().split()]\n[t.start() for t in threads]\n[t.join() for t in threads]\nprint(total)",
    "a process of itself": "import subprocess, sys\nif len(sys.argv) > 1:\n    print(int(sys.argv[1]) + int(sys.argv[2]))\nelse:\n    print(subprocess.run([sys.executable, __file__, *input().split()], capture_output=True, text=True).stdout)",
    "multiprocessing": 'import multiprocessing\n\ndef double(n):\n    return 2 * n\n\nif __name__ == "__main__":\n    with multiprocessing.Pool(2) as pool:\n        print(sum(pool.map(double, map(int, input().split()))) // 2)',
    "concurrent.futures": "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n    numbers = list(pool.map(int, input().split()))\nwith ProcessPoolExecutor(2) as pool:\n    print(sum(pool.map(abs, numbers)) if min(numbers) >= 0 else sum(numbers))",
    "asyncio": "import asyncio\n\nasync def number(word):\n    await asyncio.sleep(0)\n    return int(word)\n\nasync def main():\n    print(sum(await asyncio.gather(*map(number, input().split()))))\n\nasyncio.run(main())",
    "a file in the scratch": 'import tempfile\nwith open("numbers.txt", "w") as file:\n    file.write(input())\nwith tempfile.TemporaryFile("w+") as file:\n    file.write(open("numbers.txt").read())\n    file.seek(0)\n    print(sum(map(int, file.read().split())))',
    "random, time and the standard library": "import bisect, collections, datetime, decimal, fractions, functools, heapq, itertools, json, math, random, re\nimport statistics, string, time, typing\nrandom.seed(time.time())\nprint(functools.reduce(lambda a, b: a + b, map(int, input().split())))",
    "its own signal handler and an alarm": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.alarm(5)\nprint(sum(map(int, input().split())))",
    "200 MB of memory": "big = bytearray(200 << 20)\nprint(sum(map(int, input().split())))",
}

# fmt: off
APART = {
    "input until EOFError": (
        LINES,
        "total = 0\nwhile True:\n    try:\n        total += int(input())\n    except EOFError:\n        break\nprint(total)"),
    "for line in sys.stdin": (LINES, "import sys\nprint(sum(int(line) for line in sys.stdin if line.strip()))"),
    "CRLF in the input": (
        stdio(("3 5\r\nab\r\n", "8 ab\n")), "a, b = map(int, input().split())\nprint(a + b, input().strip())"),
    "CRLF in the output": (stdio(("3 5\n", "8\n9\n")), "import sys\nsys.stdout.write('8\\r\\n9\\r\\n')"),
    "output buffered by hand": (
        stdio(("3\n", "0\n1\n2\n")),
        "import sys\nout = [str(i) for i in range(int(input()))]\nsys.stdout.write('\\n'.join(out))"),
    "unicode": (stdio(("héllo\n", "OLLÉH ✓ 字 😀\n")), "print(input()[::-1].upper(), '✓ 字 😀')"),
    "big integers": (stdio(("10\n", f"{7**1000}\n")), "print(7 ** (int(input()) * 100))"),
    "floats within tolerance": (stdio(("2\n", "1.4142135623730951\n")), "print('%.9f' % (float(input()) ** 0.5))"),
    "a megabyte of output": (
        stdio(("150000\n", "".join(f"{i}\n" for i in range(150000)))), "for i in range(int(input())):\n    print(i)"),
    "a megabyte of input": (
        stdio((" ".join(map(str, range(150000))), str(sum(range(150000))))), "print(sum(map(int, input().split())))"),
    "deep recursion": (
        TREE,
        "import sys\nsys.setrecursionlimit(10 ** 6)\n\ndef depth(n):\n    return 0 if n == 0 else 1 + depth(n - 1)\n\nprint(depth(int(input())))"),
    "recursion in a thread with a large stack": (
        TREE,
        "import sys, threading\nsys.setrecursionlimit(10 ** 7)\nthreading.stack_size(128 * 1024 * 1024)\n\ndef depth(n):\n    return 0 if n == 0 else 1 + depth(n - 1)\n\ndef main():\n    print(depth(int(input())))\n\nthread = threading.Thread(target=main)\nthread.start()\nthread.join()"),
    "C++": (
        CPP, "#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }"),
    "C++ of the contests": (
        {"language": "c++"} | SUM,
        '#include <bits/stdc++.h>\nusing namespace std;\nint main() {\n    ios::sync_with_stdio(false); cin.tie(nullptr);\n    vector<long long> xs; long long x;\n    while (cin >> x) xs.push_back(x);\n    printf("%lld\\n", accumulate(xs.begin(), xs.end(), 0LL));\n}'),
    "JavaScript by lines": (
        JAVASCRIPT,
        'const lines = require("fs").readFileSync(0, "utf8").split("\\n");\nconsole.log(lines[0].split(" ").map(Number).reduce((a, b) => a + b));'),
    "JavaScript by readline": (
        {"language": "js"} | SUM,
        'const rl = require("readline").createInterface({ input: process.stdin });\nrl.on("line", line => { const [a, b] = line.split(" ").map(Number); console.log(a + b); });'),
}
# fmt: on

TEXTS = {
    "thinking before it": "<think>\n```python\nprint(0)\n```\n</think>\n" + fenced(RIGHT["stdio"]),
    "a draft before it": fenced("print(0)") + "No:\n" + fenced(RIGHT["stdio"]),
    "sample output after it": fenced(RIGHT["stdio"]) + "It prints\n```text\n8\n```\n",
    "a fence without a tag": fenced(RIGHT["stdio"], ""),
    "Python with a capital": fenced(RIGHT["stdio"], "Python"),
    "py": fenced(RIGHT["stdio"], "py"),
    "a space after the tag": fenced(RIGHT["stdio"], "python "),
    "CRLF everywhere": fenced(RIGHT["stdio"]).replace("\n", "\r\n"),
    "tabs, form feeds and a byte order mark": fenced(
        "\ufeffif True:\n\ta, b = map(int, input().split())\n\f\n\tprint(a + b)"
    ),
    "a coding cookie": fenced("# -*- coding: utf-8 -*-\n" + RIGHT["stdio"]),
}

RIGHT_CASES: list[Case] = [
    *(case(f"the sum [{shape}]", ADD[shape], RIGHT[shape], 1.0) for shape in EVERY),
    *cases(SUM, 1.0, ADDS),
    *cases_apart(1.0, APART),
    *CALLED_CASES,
    *texts(SUM, 1.0, TEXTS),
    *texts(FENCE, 1.0, {"a fence inside a string": fenced("print('`' * 3)")}),
]
