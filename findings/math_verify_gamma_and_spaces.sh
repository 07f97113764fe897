#!/usr/bin/env bash
# math-verify 0.9.0 (latex2sympy2_extended 1.11.0): two readings that depend on what stands beside a letter.
# Seen: \gamma^{2}+1 and \gamma^{3}+1 are both read as the Gamma function of +1 to a power, so they are equal (1); and
# e^{2i t} and e^{2 i t}, which differ by one space, have symbols of other assumptions and are unequal.
# Right: the first two differ wherever gamma is a variable; the last two are the same expression.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    'math-verify==0.9.0' 'latex2sympy2_extended==1.11.0' 'sympy==1.14.0' 'antlr4-python3-runtime==4.13.2'
"$folder/venv/bin/python" - <<'PYTHON'
from math_verify import parse, verify

square, cube = (parse(rf"$\gamma^{{{power}}}+1$") for power in (2, 3))
print(r"\gamma^{2}+1:", square, r"  \gamma^{3}+1:", cube)
assert verify(square, cube), "powers of gamma are told apart now"

tight, wide = parse(r"$\frac{e^{2i t}}{2+2i}$"), parse(r"$\frac{e^{2 i t}}{2+2 i}$")
print("tight:", tight, " wide:", wide, " equal:", verify(tight, wide))
assert str(tight[0]) == str(wide[0]), "the two are printed differently now"
assert not verify(tight, wide), "a space no longer changes what a symbol is"
PYTHON
