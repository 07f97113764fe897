#!/usr/bin/env bash
# math-verify 0.9.0 (latex2sympy2_extended 1.11.0, sympy 1.14.0): names that differ in LaTeX become one symbol.
# Seen: `A` and `a` are one symbol, so that A/a is 1; `I` is the imaginary unit, so that an equation for I has no right
# side and equals any other; a prime is dropped, so that y' is y; a first derivative computes to 0, so that
# 12 + dx/dt is 12; \Pi is the number pi.
# Right: each is a symbol of its own. A grader that hands boxes over as they are calls these equal.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    'math-verify==0.9.0' 'latex2sympy2_extended==1.11.0' 'sympy==1.14.0' 'antlr4-python3-runtime==4.13.2'
"$folder/venv/bin/python" - <<'PYTHON'
from math_verify import parse, verify

PAIRS = [(r"\frac{A}{a}", "1"), (r"I = \frac{1}{2}MR^2", r"I = \frac{2}{5}MR^2"), ("y' + 1", "y + 1"), (r"12 + \frac{dx}{dt}", "12"), (r"\Pi", r"\pi")]
seen = [(one, other, verify(parse(f"${other}$"), parse(f"${one}$"))) for one, other in PAIRS]
for one, other, is_equal in seen:
    print(f"{one:24} {other:10} equal: {is_equal}")
assert all(is_equal for *_, is_equal in seen), "the behaviour has changed"
PYTHON
