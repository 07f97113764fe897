r"""Signs of mathematics and commands with one meaning are made one: `≤`, `<=`, `\leq` and `\leqslant` are `\le`.

In: an answer or a reference. Out: the same in commands of plain LaTeX. Run by `scorers.math.notation`. Pure functions
on texts of at most MAX_CHARS characters, linear in their length.
"""

from __future__ import annotations

import re
from typing import Final

_SIGNS: Final = {
    "∞": "\\infty ",
    "\N{UNION}": "\\cup ",
    "∩": "\\cap ",
    "≤": "\\le ",
    "⩽": "\\le ",
    "≥": "\\ge ",
    "⩾": "\\ge ",
    "≠": "\\ne ",
    "≡": "\\equiv ",
    "≈": "\\approx ",
    "≃": "\\approx ",
    "≅": "\\cong ",
    "\N{TILDE OPERATOR}": "\\sim ",
    "∈": "\\in ",
    "\N{SET MINUS}": "\\setminus ",
    "±": "\\pm ",
    "∓": "\\mp ",
    "\N{MULTIPLICATION SIGN}": "\\times ",
    "·": "\\cdot ",
    "⋅": "\\cdot ",
    "÷": "/",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "π": "\\pi ",
    "θ": "\\theta ",
    "φ": "\\phi ",
    "\N{GREEK SMALL LETTER ALPHA}": "\\alpha ",
    "β": "\\beta ",
    "λ": "\\lambda ",
    "∅": "\\emptyset ",
    "\N{DOUBLE-STRUCK CAPITAL R}": "\\mathbb{R}",
    "\N{DOUBLE-STRUCK CAPITAL Z}": "\\mathbb{Z}",
    "\N{DOUBLE-STRUCK CAPITAL N}": "\\mathbb{N}",
    "\N{DOUBLE-STRUCK CAPITAL Q}": "\\mathbb{Q}",
    "°": "^\\circ ",
    "½": "\\frac{1}{2}",
    "¼": "\\frac{1}{4}",
    "¾": "\\frac{3}{4}",
    **{
        sign: f"\\frac{{{over}}}{{{under}}}"
        for sign, over, under in zip("⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞", "121234151357", "335555668888", strict=True)
    },
    "→": "\\to ",
    "↦": "\\mapsto ",
    "\N{LOGICAL OR}": "\\lor ",
    "∧": "\\land ",
    "…": "\\ldots ",
    "⟨": "\\langle ",
    "⟩": "\\rangle ",
    "\u00a0": " ",
    "\u2009": " ",
    "\u202f": " ",
    "\u2007": " ",
    "\u2005": " ",
    "\u2006": " ",
    "\u200a": " ",
}
_SIGN: Final = re.compile("|".join(map(re.escape, _SIGNS)))
_ROOTS: Final = {"√": "", "\N{CUBE ROOT}": "[3]", "\N{FOURTH ROOT}": "[4]"}
_ROOT_SIGN: Final = re.compile(
    rf"([{''.join(_ROOTS)}])\s*(?:\{{([^{{}}]*)\}}|\(([^()]*)\)|([0-9]+|[A-Za-z]))"
)
_RAISED_SIGNS: Final = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207f\u2071", "0123456789+-ni"
)
_RAISED: Final = re.compile(f"[{''.join(map(chr, _RAISED_SIGNS))}]+")
_LOWERED_SIGNS: Final = str.maketrans(
    "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089\u2099", "0123456789n"
)
_LOWERED: Final = re.compile(f"[{''.join(map(chr, _LOWERED_SIGNS))}]+")
_SYNONYMS: Final = {
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
    "nicefrac": "frac",
    "sfrac": "frac",
    "dbinom": "binom",
    "tbinom": "binom",
    "leq": "le",
    "leqslant": "le",
    "geq": "ge",
    "geqslant": "ge",
    "neq": "ne",
    "approxeq": "approx",
    "simeq": "approx",
    "varnothing": "emptyset",
    "vee": "lor",
    "wedge": "land",
    "lbrace": "{",
    "rbrace": "}",
    "colon": ":",
    "dots": "ldots",
    "cdots": "ldots",
    "textrm": "text",
    "textnormal": "text",
    "mbox": "text",
    "bold": "mathbf",
    "mathnormal": "mathit",
    "degree": "circ",
    "backslash": "setminus",
    "smallsetminus": "setminus",
    "lvert": "vert",
    "rvert": "vert",
    "lVert": "|",
    "rVert": "|",
    "Vert": "|",
    "tg": "tan",
    "ctg": "cot",
    "cotg": "cot",
    "cotan": "cot",
    "arctg": "arctan",
    "arcctg": "arccot",
    "cosec": "csc",
    "lg": "log_{10}",
}
_DEGREE: Final = re.compile(r"(?<![\^{])(?<!\^ )\\degree(?![A-Za-z])")
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)")
_COMPARED: Final = re.compile(r"\\(lt|gt)(?![A-Za-z])")
_AT_MOST: Final = {"<=": "\\le ", ">=": "\\ge "}
_FUNCTION: Final = re.compile(
    r"\\operatorname\{(sin|cos|tan|cot|sec|csc|log|ln|exp|max|min|gcd|arcsin|arccos|arctan|sh|ch|th)\}"
    r"|\\(?:operatorname|mathrm|text)\{\s*(tg|ctg|cotg|cotan|arctg|arcctg|cosec|lg|[aA]rc(?:sin|cos|tan)|a(?:sin|cos|tan|cot|sec|csc)h?|sin|cos|tan|cot|ln|log|csc|exp|sinh|cosh|tanh)\s*\}"
)
_HYPERBOLIC: Final = {"sh": "sinh", "ch": "cosh", "th": "tanh"}


def _signs_spelled(text: str) -> str:
    """Return a text with the commands of the signs that stand in it."""
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], text)
    return _ROOT_SIGN.sub(lambda root: f"\\sqrt{_ROOTS[root[1]]}{{{root[2] or root[3] or root[4]}}}", text)


def _synonym(command: re.Match[str]) -> str:
    found = _SYNONYMS.get(command[1], command[1])
    return found if found == ":" else f"\\{found}"


def _function(name: re.Match[str]) -> str:
    found = (name[1] or name[2]).lower()
    if found.startswith("a") and not found.startswith("arc"):
        return f"\\arc{found[1:]}"  # `asin`, as sympy writes it
    found = _HYPERBOLIC.get(found) or _SYNONYMS.get(found, found)
    return f"\\{found}"


def with_indices(text: str) -> str:
    """Return a text with raised and lowered digits as powers and indices."""
    text = _RAISED.sub(lambda raised: f"^{{{raised[0].translate(_RAISED_SIGNS)}}}", text)
    return _LOWERED.sub(lambda lowered: f"_{{{lowered[0].translate(_LOWERED_SIGNS)}}}", text)


def in_ascii(text: str) -> str:
    """Return a text with the commands of the signs that stand in it."""
    return text if text.isascii() else _signs_spelled(text)


def with_one_command(text: str) -> str:
    """Return a text with one command for each meaning."""
    text = _COMMAND.sub(_synonym, _DEGREE.sub(r"^\\circ ", text))
    text = _COMPARED.sub(lambda sign: "<" if sign[1] == "lt" else ">", text)
    for sign, spelled in _AT_MOST.items():
        text = text.replace(sign, spelled)
    return text


def with_functions(text: str) -> str:
    r"""Return a text with one command for each function: `\\operatorname{tg}` is `\\tan`."""
    return _FUNCTION.sub(_function, text)
