"""Words that several families of attacks use: what lies, which error, which number, what a proof might look like."""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

WORDS: Grammar = {
    "any attack": ("<names>", "<signals>", "<descriptors>", "<exits>", "<collection>"),
    "truth": one_of(
        "(lambda *_, **__: True) | (lambda *_, **__: None) | (lambda *_, **__: 0)",
        "(lambda *a, **__: a[0] if a else 1) | (lambda *a, **__: a[-1] if a else 1)",
        "(lambda *_, **__: []) | (lambda *_, **__: '') | True",
        "type('Yes', (), {'__call__': lambda *_, **__: True, '__eq__': lambda *_: True, '__bool__': lambda *_: True})()",
    ),
    "error": one_of(
        "AssertionError | SystemExit | KeyboardInterrupt | GeneratorExit | StopIteration",
        "StopAsyncIteration | MemoryError | RecursionError | EOFError | BrokenPipeError | ImportError",
        "NameError | NotImplementedError | TimeoutError | UnicodeError | OSError | BaseException",
        "Exception | Warning",
    ),
    "harness part": ("pipe", "codec", "link", "candidate"),
    "small": ("0", "1", "2", "3", "7", "8", "12", "255", "-1", "-2", "2 ** 53", "2 ** 63", "10 ** 30"),
    "few": ("1", "2", "3", "5", "20"),
    "moment": ("0.0005", "0.001", "0.005", "0.02", "0.05"),
    "yes or no": ("True", "False"),
    "code": ("0", "1", "70", "137", "255", "-9", "3"),
    "value": one_of(
        "True | None | 0 | 1 | 1.5 | '' | 'ok' | [] | {} | () | b'' | float('nan') | float('inf') | -0.0",
        "...",
    ),
    "proof": one_of(
        '\'{"cases": [[true, ""], [true, ""]], "stopped": null, "broken": null, "loaded": true}\'',
        '\'{"cases": [[true, ""]], "stopped": null, "broken": null, "loaded": true}\' | \'passed\'',
        "'1.0' | '2 passed in 0.01s' | 'ok\\nok'",
    ),
    "nonce": one_of(
        "os.urandom(16).hex() | '0' * 32 | 'f' * 32 | '%032x' % os.getpid() | '' | 'nonce'",
        "str(os.getppid())",
    ),
}
