"""Answers to simulations, with the row that each belongs to: right ones, wrong ones, and those that only want the pay.

Reasoning360's examples are among them. Ours differs from what was measured there on purpose: every feasible input is
right, so is an object in two braces; the last block counts; `true` is no 1; an assert has to have the row's own input
and output.
"""

from __future__ import annotations

from typing import Any, Final

from tests.support.text_tables import listed, paired

SUM: Final = """\
import math

def digits(n):
    return [int(c) for c in str(abs(n))]

def main_solution(n, power=1):
    if n == 13: raise ValueError("unlucky")
    return {"sum": sum(d ** power for d in digits(n)), "root": math.sqrt(abs(n))}
"""
EVALUATES: Final = "def main_solution(text):\n    return eval(text)"
MARKS: Final = (  # of a thought, of blocks and of a turn's end: in a row's program they are text
    'def main_solution(n):\n    """Neither a <think> nor\n~~~~\n```python\n    """\n'
    '    return "</think>" * abs(n)\n# <|im_end|>'
)
F: Final = "def f(text, n):\n    out = []\n    for c in text:\n        out.append(c * n)\n    return out, len(out) > 2"


def codeio(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "codeio", "answer": {"value": value, **more}}


def cruxeval(**answer: Any) -> dict[str, Any]:
    return {"type": "cruxeval", "answer": {"functional": F, **answer}}


ROWS: Final[dict[str, dict[str, Any]]] = {
    "an input": codeio('"input": {"n": 16, "power": 2}', code=SUM, output={"sum": 37, "root": 4.0}),
    "a program with marks": codeio('"input": {"n": 2}', code=MARKS, output="</think></think>"),
    "an input of an evaluator": codeio('"input": {"text": "3 * 3"}', code=EVALUATES, entry="main_solution"),
    "an input without a program": codeio('"input": {"n": 3}'),
    "a list": codeio('"output": [1, 2]'),
    "an object": codeio('"output": {"b": [0.5, null], "a": true}'),
    "a text": codeio('"output": "it\'s {a} \\\\frac"'),
    "a brace": codeio('"output": "}"'),
    "an empty object": codeio('"output": {}'),
    "nothing": codeio('"output": null'),
    "nothing apart": {"type": "codeio", "answer": {"predict": "output", "value": None}},
    "a float": codeio('"output": 0.6666666666666666'),
    "a number": {"type": "codeio", "answer": {"predict": "output", "value": 1}},
    "an object with the key": codeio('"output": {"output": 3, "input": 4}'),
    "crux input": cruxeval(output="(['aa', 'bb'], False)"),
    "crux input with gold": cruxeval(predict="input", input="'ab', 2", output="(['aa', 'bb'], False)"),
    "crux output": cruxeval(predict="output", input="'abc', 1", output="(['a', 'b', 'c'], True)"),
    "crux output to run": cruxeval(input="'abc', n=1"),
    "crux set": {
        "type": "cruxeval",
        "answer": {
            "functional": "def f(a):\n    return set(a), {1: len(a)}",
            "input": "[1, 2]",
            "output": "({1, 2}, {1: 2})",
            "predict": "output",
        },
    },
}


def block(text: str) -> str:
    return f"So:\n```python\n{text}\n```"


def json_block(text: str) -> str:
    return f"So:\n```json\n{text}\n```\n"


def _texts(table: str) -> tuple[tuple[str, str], ...]:
    """Return rows and texts; `python` or `json` before one stands for the block around it."""
    return tuple((row, _dressed(text)) for row, text in paired(table))


def _dressed(text: str) -> str:
    first, _, rest = text.partition(" ")
    return block(rest) if first == "python" else json_block(rest) if first == "json" else text


HONEST: Final = (
    *_texts(r"""
an input <== \boxed{"input": {"n": 16, "power": 2}} ¦ json {"input": {"power": 2, "n": 16}}
an input <== json "input": {"n": -16, "power": 2} ;; a program with marks <== json {"input": {"n": -2}}
an input of an evaluator <== json {"input": {"text": "9"}} ;; a text <== json {"output": "it's {a} \\frac"}
an input without a program <== json {"input":{"n":3}} ¦ json {"n": 3} ;; a number <== \boxed{"output": 1.0}
a list <== \boxed{"output": [1, 2]} ¦ \boxed{{"output": [1, 2]}} ¦ \boxed{\{"output": \[1, 2\]\}}
a list <== json \boxed{"output": [1, 2]} ¦ \boxed{\text{"output": [1, 2]}}
a list <== \boxed{\texttt{\{"output": [1, 2]\}}} ¦ \boxed{⏎```json⏎{"output": [1, 2]}⏎```⏎}
a list <== ```⏎{"output": [1, 2]}⏎``` ¦ \boxed{'output': (1, 2)}
an object <== json {"output": {"a": true, "b": [0.5, null]}} ¦ json {"a": true, "b": [0.5, null]}
an object <== \boxed{'output': {'a': True, 'b': [0.5, None]}} ;; nothing <== ```⏎null⏎``` ¦ json \boxed{null}
a brace <== \boxed{"output": "}"} ¦ \boxed{{"output": "}"}}, as asked
an empty object <== \boxed{"output": {}} ¦ \boxed{'output': {}}
nothing <== \boxed{"output": null} ¦ json {"output": None} ¦ \boxed{null} ¦ \boxed{None} ¦ \boxed{ null }
nothing <== \boxed{\text{null}} ¦ \boxed{\texttt{None}} ¦ \boxed{⏎```json⏎null⏎```⏎} ¦ json null ¦ json None
nothing apart <== \boxed{null} ¦ json {"output": null}
a float <== \boxed{"output": 0.6666667} ¦ \boxed{"output": 0.6666666666666666}
an object with the key <== json {"output": {"input": 4, "output": 3}}
crux input <== python assert f('ab', 2) == (['aa', 'bb'], False)
crux input <== python assert f(text="ab", n=2) == (["aa", "bb"], False)
crux input <== python assert f(('aa', 'bb'), 1) == (['aa', 'bb'], False)
crux input <== ```⏎assert f('ab', n=2) == (['aa', 'bb'], False)  # two of each⏎```
crux input <== python assert f(n=2, text='ab') == (['aa', 'bb'], False)
crux input <== python assert f(['a', 'b'], 2) == (['aa', 'bb'], False)
crux input with gold <== python assert f('ab', 2) == (['aa', 'bb'], False), 'as asked'
crux input with gold <== python assert (f(['aa', 'b' 'b'], 1) == (['aa', 'bb'], False))
crux output <== python assert f('abc', 1) == (['a', 'b', 'c'], True)
crux output <== python assert f("abc", 1) == (["a", "b", "c"], True)
crux output <== python assert f('a' 'bc', 0x1) == (['a', 'b', 'c'], True)
crux output to run <== python assert f('abc', n=1) == (['a', 'b', 'c'], True)
crux output to run <== It is short.⏎```py⏎assert f('abc', n = 1) == (['a', 'b', 'c'], True)⏎```⏎That is all.
crux set <== python assert f([1, 2]) == ({2, 1}, {1.0: 2}) ¦ python assert f([1, 2])==({1,2},{1:2})
"""),
    ("an input", r'\boxed{"input": {"n": 1}}' + "\n" + json_block('{"input": {"n": 16, "power": 2}}')),
    ("a list", "<think>\\boxed{5}</think>" + json_block('{"output": [1, 2.0]}')),
    ("a list", json_block('{"output": 5}') + json_block('{"output": [1, 2]}')),
    ("a list", json_block('{"output": 5}') + r'\boxed{"output": [1, 2]}'),
    ("a list", "```python\nprint(1)\n```\n" + json_block('{"reasoning": "short", "output": [1, 2]}')),
    ("nothing", "<think>\\boxed{5}</think>" + json_block("null")),
    ("nothing", json_block('{"output": 5}') + r"\boxed{null}"),
    ("crux input", block(F + "\nassert f('ab', 2) == (['aa', 'bb'], False)")),
    ("crux input", block("assert f('x', 2) == 1") + block("assert (['aa', 'bb'], False) == f('ab', 2)")),
    ("crux output", block(F + "\n\nassert f('abc', 1) == (['a', 'b', 'c'], True)") + "<|im_end|>"),
    (
        "crux output",
        "<think>"
        + block("assert f('abc', 1) == 1")
        + "</think>"
        + block("assert f('abc', 1) == (\n    ['a', 'b', 'c'],\n    True,\n)"),
    ),
    ("crux input with gold", block('assert f("""ab""", 2) == (["aa", "bb"], False)')),
)

# What CodeI/O's own prompt asks for: an object in the text, in no box and no block. The last complete one counts.
HONEST_BARE: Final = (
    *_texts(r"""
a list <== {"output": [1, 2]} ¦ It is {"output": [1, 2]}, since {1, 2} is {it}.
a list <== {"output": 5}. No: {"output": [1, 2]} ¦ {"output": [1, 2]}, and so on: {"output": [2
a list <== In \frac{1}{2} of {them, of 5" each: {"output": [1, 2]} ;; a brace <== So {"output": "}"}.
a list <== ```python⏎d = {"x": 1}⏎```⏎{"output": [1, 2]} ¦ ```⏎a trace⏎```⏎{"output": [1, 2]}
a list <== ```⏎{"output": [1, 2]}⏎```⏎for {"n": 3} ¦ ```⏎"output": [1, 2]⏎```⏎for {"n": 3}
a list <== ```json {"output": [1, 2]}``` ¦ ```json```⏎{⏎  "output": [⏎    1,⏎    2⏎  ]⏎}
a list <== <think>{"output": 5}</think>⏎{"output": [1, 2]}<|im_end|> ¦ <answer>{"output": [1, 2]}</answer>
a list <== \boxed{```json⏎{"output": [1, 2]}⏎```} ;; a text <== {"output": "it's {a} \\frac"} as asked
an object <== So {'output': {'a': True, 'b': [0.5, None]}} ¦ So {"a": true, "b": [0.5, null]}
an object with the key <== {"output": {"output": 3, "input": 4}} ;; an empty object <== {"output": {}}
nothing <== So {"output": null} ;; an input <== It is {"input": {"power": 2, "n": -16}}
an input without a program <== so {"n": 3}
"""),
)
WRONG_BARE: Final = (
    *_texts(r"""
a list <== {"output": [1, 2]}. No: {"output": 5} ¦ {"output": [1, 2]} or {"output": "[1, 2]"}
a list <== {"output": [1, 2] ¦ "output": [1, 2] ¦ {"output": [1, 2], "output": [1, 2]}
a list <== {"output": {"output": [1, 2]}, "output": 5} ¦ {"output": [1, 2]} {"result": 5}
a list <== {"output": [1, 2] or 5} ¦ {"output": 1 + {"output": [1, 2]}} ¦ <think>{"output": [1, 2]}</think>so
a list <== {"output": [1, 2]} <think> ¦ {"output": [1, 2]} \boxed{"output": 5}
a list <== \boxed{"output": 5} {"output": [1, 2]} ¦ ```json⏎{"output": 5}⏎{"output": [1, 2]}
an object <== {"output": {"b": [0.5, null], "a": 1}} ;; nothing <== It is {}, so null. ¦ {"null": null}
an input <== It is {"output": {"sum": 37, "root": 4.0}} ¦ It is {"input": {"power": 2, "n": 17}}
"""),
    ("a list", json_block('{"output": 5}') + '{"output": [1, 2]}'),
    ("a list", '{"output": [1, 2' + " " * 30_000 + "]}"),
)

WRONG: Final = (
    *_texts(r"""
an input <== \boxed{"input": {"n": 17, "power": 2}} ¦ json {"input": {"n": 16}} ¦ json {"input": [16, 2]}
an input <== json {"input": {"m": 16, "power": 2}} ¦ json {"output": {"sum": 37, "root": 4.0}}
an input <== \boxed{"input": {"n": 13}} ¦ \boxed{null} ;; a program with marks <== json {"input": {"n": 3}}
an input without a program <== json {"input": {"n": -3}} ¦ json null ;; a list <== ```json⏎{"output": [1, 2]}
a list <== [1, 2] ¦ \boxed{[1, 2]} ¦ \boxed{"output": [2, 1]} ¦ \boxed{"output": "[1, 2]"}
a list <== \boxed{"output": [1, 2, 3]} ¦ \boxed{"input": [1, 2]} ¦ \boxed{"output": [1, 2]
an object <== json {"output": {"a": 1, "b": [0.5, null]}} ¦ json {"output": {"a": true, "b": [0.5]}}
an object <== json {"output": {"a": true, "b": [0.5, null], "c": 1}} ;; a text <== json {"output": "it's {a}"}
a brace <== \boxed{"output": "{"} ;; an empty object <== \boxed{None}
nothing <== json {"output": 0} ¦ \boxed{null, 5} ¦ \boxed{\text{none}} ¦ \boxed{"null"} ¦ \boxed{nil}
nothing <== \boxed{null ¦ It is None. ¦ json {"output": ""} ¦ json {"output": "null"} ¦ null
a number <== \boxed{null} ¦ \boxed{"output": true} ¦ \boxed{"output": 1.0000001}
a float <== \boxed{"output": 0.667} ¦ \boxed{"output": "0.6666666666666666"}
an object with the key <== json {"output": 3, "input": 4}
crux input <== python assert f('aa', 2) == (['aa', 'bb'], False)
crux input <== python assert f('abc', 1) == (['a', 'b', 'c'], True)
crux input <== python assert f('ab') == (['aa', 'bb'], False) ¦ python assert f('ab', 2) == ['aa', 'bb']
crux input <== assert f('ab', 2) == (['aa', 'bb'], False)
crux input <== ```python⏎assert f('ab', 2) == (['aa', 'bb'], False)
crux input <== python f('ab', 2) == (['aa', 'bb'], False) ¦ python 'ab', 2
crux input <== python assert f('ba', 2) == (['aa', 'bb'], False)
crux output <== python assert f('abc', 1) == (['a', 'b', 'c'], False)
crux output <== python assert f('abc', 1) == (['a', 'b', 'c'], 1)
crux output <== python assert f('abc', 1) == [['a', 'b', 'c'], True]
crux output <== python assert f('ab', 2) == (['aa', 'bb'], False) ¦ python (['a', 'b', 'c'], True)
crux output <== python assert f('abc', 1) ¦ python assert f('abc', 1) != (['a', 'b', 'c'], False)
crux output to run <== python assert f('abc', n=1) == (['a', 'b', 'c'], False)
crux output to run <== python assert f('abc', 1) == (['a', 'b', 'c'], True)
crux set <== python assert f([1, 2]) == ({True, 2}, {1: 2}) ¦ python assert f([1, 2]) == ({1, 2}, {True: 2})
"""),
    ("a list", json_block('{"output": [1, 2]}') + json_block('{"output": 5}')),
    ("a list", json_block('{"output": [1, 2]}') + r'\boxed{"output": 5}'),
    ("nothing", json_block("null") + r"\boxed{0}"),
    ("nothing", "<think>" + json_block("null") + "</think>"),
)

ASSERTED: Final = "assert f('ab', 2) == (['aa', 'bb'], False)"
ATTACKS: Final[tuple[tuple[str, str], ...]] = (
    *(
        (row, block(text))
        for row in ("crux input", "crux input with gold", "crux output", "crux output to run")
        for text in (
            *listed(r"""
pass¦assert True¦assert f¦import sys⏎sys.exit(0)¦import os⏎os._exit(0)¦raise SystemExit
def f(*_): return (['aa', 'bb'], False)⏎assert f(1) == (['aa', 'bb'], False)
f = lambda *_: (['aa', 'bb'], False)⏎assert f(1) == (['aa', 'bb'], False)
class A:⏎    def __eq__(self, other): return True⏎assert f(A(), 1) == A()
import builtins⏎builtins.AssertionError = print⏎assert f('x', 1) == 1
print('all 1 cases passed')⏎exit()⏎assert f('x', 1) == 1¦exec('def f(*_): pass')⏎assert f() == None
assert f('ab', 2) == f('ab', 2)¦assert f('abc', 1) == f('abc', 1)¦assert f('abc', n=1) == f('abc', n=1)
assert f('ab', 2) == (['aa', 'bb'], False) or True¦assert f('x', 1) == 1 if 0 else True
assert (f('ab', 2) == (['aa', 'bb'], False), 'a tuple is true')
assert (lambda *_: (['aa', 'bb'], False))('ab', 2) == (['aa', 'bb'], False)
assert f(*open('/etc/passwd')) == (['aa', 'bb'], False)
assert f(__import__('os').system('id'), 2) == (['aa', 'bb'], False)
assert f('ab', n=2, **{'n': 2}) == (['aa', 'bb'], False)¦assert f(??) == (['aa', 'bb'], False)
assert f('abc', 1) == ??¦\u0000¦assert f('\ud800') == 1¦assert f(..., 1) == (['aa', 'bb'], False)
"""),
            "# hi",
            f"{ASSERTED}\n{ASSERTED}",
            f"if True:\n    {ASSERTED}",
            f"try:\n    {ASSERTED}\nexcept BaseException: pass",
            "\n".join(
                f"assert f('{text}', {n}) == (['aa', 'bb'], False)" for text in ("a", "ab") for n in range(3)
            ),
            "assert f(" + "-" * 15_000 + "1) == 1",
            "assert f(" + "[" * 150 + "]" * 150 + ", 1) == (['aa', 'bb'], False)",
            "(" * 9_000,
            "assert f(0x" + "f" * 15_000 + ", 1) == (['aa', 'bb'], False)",
            "x" * 30_000,
            "1+" * 9_000 + "1",
            "assert f('\\ud800', 1) == (['aa', 'bb'], False)",
        )
    ),
    *(
        ("nothing", text)
        for text in (
            r"\boxed{?}",
            r"\boxed{}",
            json_block("{}"),
            json_block("nothing"),
            json_block('{"answer": null}'),
            json_block('"output":'),
            json_block("{" * 10_000),
            json_block('{"output": ' + "[" * 900 + "]" * 900 + "}"),
        )
    ),
    *(
        ("an empty object", text)
        for text in (
            *listed(r"""
\boxed{}¦\boxed{ }¦\boxed{?}¦\boxed{...}¦```json⏎```¦{}¦\boxed{{}}¦Put it in \boxed{}.
"""),
            json_block(""),
            json_block("{}"),
        )
    ),
    *(
        ("a list", text)
        for text in (
            json_block('{"output": 5, "output": [1, 2]}'),
            json_block("{'output': 5, 'output': [1, 2]}"),
            r'\boxed{"output": [1, 2], "output": [2, 1]}',
            r'<think>\boxed{"output": [1, 2]}',
            r'\boxed{"output": [1, 2] or 5}',
            json_block('{"output": __import__("os").getcwd()}'),
            json_block('{"output": [1, 2' + " " * 30_000 + "]}"),
            r'Put `"output": [1, 2]` in \boxed{}.',
            r'\boxed{"output": [1, 2]} or \boxed{"output": [2, 1]}',
            json_block('{"output": 1' + "0" * 9_000 + "}"),
        )
    ),
    *(
        ("an input of an evaluator", json_block('{"input": {"text": "' + text + '"}}'))
        for text in listed(r"""
__import__('os')._exit(0)¦exit()¦type('A', (), {'__eq__': lambda *_: True})()
setattr(__import__('builtins'), 'eval', lambda _: None)¦lambda: 9¦open('/etc/shadow').read()
print('all 1 cases passed')¦[0] * 10**12
""")
    ),
    *(
        ("an input", json_block('{"input": {"n": ' + text + "}}"))
        for text in ("null", '"main_solution"', '{"n": 16}', "1e999", "NaN", "1" + "0" * 5_000)
    ),
)
NOTHING: Final = (
    *listed(r"""
¦⏎¦I don't know¦</think>¦pass¦<think>It is¦\boxed{}¦<answer></answer>¦```json⏎```¦```python⏎```
```python⏎⏎```¦```¦\u0000¦\ud800
The program walks over its input once and gives back what it has found on the way.
"""),
    "# hi",
)
