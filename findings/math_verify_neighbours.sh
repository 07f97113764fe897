#!/usr/bin/env bash
# math-verify 0.9.0 (latex2sympy2_extended 1.11.0): two integers side by side are added, as if they were a mixed number,
# and a fraction whose numerator is a command without braces is taken apart in the wrong place.
# Seen: \boxed{5 6} is 11; \boxed{\frac\pi2} is not pi/2, though LaTeX sets it so.
# Right: `5 6` is no number; `\frac\pi2` is pi/2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    'math-verify==0.9.0' 'latex2sympy2_extended==1.11.0' 'sympy==1.14.0' 'antlr4-python3-runtime==4.13.2'
"$folder/venv/bin/python" - <<'PYTHON'
from math_verify import parse, verify

added = parse(r"\boxed{5 6}")
half = parse(r"\boxed{\frac\pi2}")
print(r"\boxed{5 6}      ", added)
print(r"\boxed{\frac\pi2}", half)
assert verify(parse("$11$"), added), "neighbouring integers are no longer added"
assert not verify(parse(r"$\frac{\pi}{2}$"), half), "a command is read as a numerator now"
PYTHON
