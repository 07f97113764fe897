#!/usr/bin/env bash
# math-verify 0.9.0 (latex2sympy2_extended 1.11.0): a determinant written as an array between bars, as textbooks and
# converters from PDF write it, is read as the matrix of absolute values; `vmatrix` is read as a determinant.
# Seen: |array(1 2; 3 4)| equals |array(1 2; -3 4)|, whose determinants are -2 and 10, and is not -2.
# Right: bars around an array are a determinant: -2, and 10.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    'math-verify==0.9.0' 'latex2sympy2_extended==1.11.0' 'sympy==1.14.0' 'antlr4-python3-runtime==4.13.2'
"$folder/venv/bin/python" - <<'PYTHON'
from math_verify import parse, verify

def array(entry: int) -> list:
    return parse(rf"$\left|\begin{{array}}{{rr}}1 & 2 \\ {entry} & 4\end{{array}}\right|$")

print("array in bars:", array(3), array(-3))
print("vmatrix:      ", parse(r"$\begin{vmatrix}1 & 2 \\ 3 & 4\end{vmatrix}$"))
assert verify(array(3), array(-3)), "determinants that differ in a sign are told apart now"
assert not verify(parse("$-2$"), array(3)), "an array in bars is a determinant now"
assert verify(parse("$-2$"), parse(r"$\begin{vmatrix}1 & 2 \\ 3 & 4\end{vmatrix}$")), "vmatrix is no determinant now"
PYTHON
