r"""Spellings of mathematics are made one: signs, spaces, digit groups, mixed numbers, repeating decimals, ordinals.

In: an answer or a reference as people and models write it. Out: the same in the plain LaTeX that math_verify reads, or
a key that is the same for two texts that differ in layout alone. What is made one is said in `scorers.math.spelling`, a
module for each kind; here stands their order. Pure functions on texts of at most MAX_CHARS characters, linear in their
length.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from scorers.math.figures import in_figures, with_one_value
from scorers.math.spelling.introductions import without_introduction
from scorers.math.spelling.layout import without_layout
from scorers.math.spelling.lists import as_list, with_joints, with_rows, without_delimiters
from scorers.math.spelling.programs import in_latex
from scorers.math.spelling.signs import in_ascii, with_functions, with_indices, with_one_command
from scorers.math.spelling.written_numbers import goes_on, joined, valued

_SPACE: Final = re.compile(
    r"(?<!\\)\\[,;: ]|\\(?:q?quad|thinspace|medspace|thickspace|enspace)(?![A-Za-z])|~|\s+"
)
_NOTHING: Final = re.compile(
    r"\\!|\\(?:left|right|middle|big|Big|bigg|Bigg)[lrm]?(?![A-Za-z])|\\(?:display|text)style(?![A-Za-z])"
)
_BARRED: Final = re.compile(
    r"\|\s*\\begin\{(array|matrix)\}(?:\{[lcr|]*\})?((?:(?!\\begin|\\end).)*)\\end\{\1\}\s*\|", re.DOTALL
)
_UPRIGHT: Final = re.compile(r"\\(?:mathrm|operatorname|text|mathit)\{\s*([ei])\s*\}")
_BARE_BOARD: Final = re.compile(r"\\(?:mathbb|Bbb)\s*(?:\{\s*)?([A-Z])(?![A-Za-z])\s*\}?")
_BOLD: Final = re.compile(
    r"\\(?:mathbf|boldsymbol|bm|pmb|mathrm|mathsf|mathtt|mathit|mathnormal)\{(-?[0-9][0-9.,]*)\}"
)
_PRIMES: Final = re.compile(
    r"(?:(?<=[A-Za-z)}])|(?<=_\w))\s*\^\s*(?:\{\s*((?:\\prime\s*)+)\}|\\prime(?![A-Za-z]))"
)
_LOG_E: Final = re.compile(r"\\log\s*_\s*(?:\{\s*e\s*\}|e)\s*")
_BARE_INDEX: Final = re.compile(
    r"_\s*(\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|vartheta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma"
    r"|tau|upsilon|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell|infty|max|min"
    r"|odot|oplus|star|perp|parallel|bot|top)"
    r"(?![A-Za-z]))"
)
_SUBSCRIPT: Final = re.compile(r"_\{\s*\\(?:(?:text|mathrm|operatorname)\{\s*)?([A-Za-z]+)\s*\}?\}")
_PART: Final = r"\s*(?:\{([^{}]*)\}|([0-9A-Za-z]|\\(?:pi|theta|alpha|beta|lambda|infty)(?![A-Za-z])))"
_BARE_FRACTION: Final = re.compile(rf"\\(frac|binom){_PART}{_PART}")
_OVERS: Final = {"over": "frac", "choose": "binom"}
_OVER: Final = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*?)\\(over|choose)(?![A-Za-z])((?:[^{}]|\{[^{}]*\})*)\}")
_OVER_ALL: Final = re.compile(r"\\(?:over|choose)(?![A-Za-z])")
_RAISED_FRACTION: Final = re.compile(r"\^\s*(\\frac\{[^{}]*\}\{[^{}]*\})")
_ROOT_OF_DIGIT: Final = re.compile(r"\\sqrt\s*(\[[^\[\]]*\])\s*([0-9A-Za-z])")
_CHEVRONS: Final = re.compile(r"\\langle\s*|\s*\\rangle")
_MONTHS: Final = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?)"
)
_DAY: Final = re.compile(rf"(?<![A-Za-z])({_MONTHS}\s+[0-3]?[0-9])(?:st|nd|rd|th)(?![A-Za-z])")
_BOXED_SIGN: Final = re.compile(r"\\text\{\s*([€£¥₹]|\\?\$|-?[0-9][0-9.]*\s*\\?%|[0-9]+(?:st|nd|rd|th))\s*\}")
_IN_PERCENT: Final = re.compile(r"(?:\\text\{\s*per\s?cent\s*\}|\s+per\s?cent)\s*\Z", re.IGNORECASE)
_OF_DEGREES: Final = re.compile(
    r"\\(sin|cos|tan|cot|sec|csc)\s*(\^\s*\{?[0-9]\}?)?\s*[({]?\s*([0-9]+(?:\.[0-9]+)?)\s*\^\s*\{?\s*\\circ\s*\}?\s*[)}]?"
)
_UNIT_VECTOR: Final = re.compile(
    r"\\(?:mathbf|hat|vec|bm|boldsymbol)\s*\{\s*(?:\\(?:mathbf|imath|jmath)\s*\{?\s*)?([ijk])\s*\}*"
)
_VECTOR_TERM: Final = re.compile(r"\s*([-+]?)\s*([^-+ ]*(?:\{[^{}]*\})*)\s*\[([ijk])\]")
_DIFFERENTIAL: Final = re.compile(
    r"\\(?:mathrm|text|operatorname|rm)\s*(?:\{\s*d\s*\}|\s+d)\s*(?=[A-Za-z\\])"
)
_OVER_DIFFERENTIAL: Final = re.compile(  # `\frac{2 dx}{x}`, and no derivative
    r"\\frac\{([^{}]*?)\s*(?<![A-Za-z\\])d\s*([a-z])\s*\}(\{(?!\s*d\s*[a-z]\s*\})(?:[^{}]|\{[^{}]*\})*\})"
)
_ROW_SPACE: Final = re.compile(r"\\\\\s*(?:\*\s*)?\[\s*-?[0-9.]+\s*(?:pt|em|ex|mm|cm|in|px|bp|pc)\s*\]")
_LOOSE_BRACES: Final = re.compile(
    r"(?:\A|(?<=[-+*/=(,{|<>])|(?<=[-+*/=(,{|<>] ))\{\s*(\w+)\s*\}(?![\w{])"  # `{10}^{5}`; none of a command's
)
_BASE_IN_BRACKETS: Final = re.compile(r"(?:\A|(?<=[-+*/=({]))\(([0-9]+)\)(?=\s*\^)")
_EXPONENT_IN_BRACKETS: Final = re.compile(r"(?<=[0-9])\s*\^\s*\{\s*\(([^()]*)\)\s*\}")
_SUCH_THAT: Final = re.compile(
    r"\A(\\\{[^|:\\]*(?:\\in(?![A-Za-z])[^|:\\]*(?:\\mathbb\{?[A-Z]\}?)?)?)(?:\\mid(?![A-Za-z])|\\vert(?![A-Za-z])|[|:])\s*"
)
_TIMES: Final = re.compile(r"(?<=[0-9])\\times(?= ?[0-9])")
_KEY_SPACE: Final = re.compile(r"(?<!\w)\s+|\s+(?![\w.])|(?<=[^\W\d])\s+(?=\.)|(?<=[0-9])\s+(?=[A-Za-z])")
_KEY_BRACES: Final = re.compile(r"([\^_])\{([\w*+-])\}")
_KEY_DIGIT: Final = re.compile(r"(\\[A-Za-z]+) (?=[0-9])")
_ROOT_OF_ONE: Final = re.compile(r"\\sqrt\s*([0-9A-Za-z])")


@lru_cache(maxsize=256)
def respelled(text: str) -> str:
    """Return a text as its reader sees it, in LaTeX: without what only sets it, and in no program's spelling."""
    if text.isascii():
        return text if text.isdigit() else in_latex(without_layout(text))
    return in_latex(without_layout(with_indices(text)))


@lru_cache(maxsize=256)
def plain(text: str) -> str:
    r"""Return a text in plain LaTeX: one spelling for each sign, space, fraction and number.

    Raises nothing: what is no mathematics comes back as it is, but for its spaces and signs.
    """
    if text.isascii() and text.isdigit():
        return text
    text = joined(_in_plain_commands(without_delimiters(text.strip())))
    text = _IN_PERCENT.sub("\\%", _BOXED_SIGN.sub(r"\1", text))
    text = _OF_DEGREES.sub(r"\\\1\2(\\frac{\3\\pi}{180})", text)
    text = valued(in_figures(_components(without_introduction(with_one_value(_DAY.sub(r"\1", text))))))
    if text.startswith("\\langle") and text.endswith("\\rangle"):
        text = f"({_CHEVRONS.sub('', text)})"
    elif text.startswith("<") and text.endswith(">") and "," in text:
        text = f"({text[1:-1]})"
    return text.strip()


def _in_plain_commands(text: str) -> str:
    """Return a text with one command for each sign, and with all arguments in braces."""
    text = in_ascii(text)
    text = text.replace("...", "\\ldots ") if "..." in text and not goes_on(text) else text
    text = _SPACE.sub(" ", _NOTHING.sub("", with_joints(text))).strip()
    text = with_functions(_UPRIGHT.sub(r"\1", _BOLD.sub(r"\1", with_one_command(text))))
    if "\\prime" in text:
        text = _PRIMES.sub(lambda primes: "'" * (primes[1] or "p").count("p"), text)
    if "_" in text:
        text = _LOG_E.sub(r"\\ln ", text)
        text = _SUBSCRIPT.sub(r"_{\1}", _BARE_INDEX.sub(r"_{\1}", text))
    text = _BARE_BOARD.sub(r"\\mathbb{\1}", text) if "bb" in text else text
    text = _ROW_SPACE.sub(r"\\\\ ", text) if "\\\\" in text else text
    text = with_rows(text)
    if "\\int" in text:
        text = _OVER_DIFFERENTIAL.sub(_beside, _DIFFERENTIAL.sub("d", text))
    text = text.replace("\\equiv", "=") if "\\equiv" in text and "mod" not in text else text
    if "\\begin" in text:
        text = _BARRED.sub(r"\\begin{vmatrix}\2\\end{vmatrix}", text.replace("\\vert", "|"))
    text = as_list(_with_arguments(text) if "\\" in text else text)
    return _unwrapped(_without_loose_braces(text) if "^" in text else text)


@lru_cache(maxsize=256)
def layout_key(text: str) -> str:
    """Return what is the same for two texts that differ in layout alone; "" for one that says nothing."""
    key = _KEY_BRACES.sub(r"\1\2", _ROOT_OF_ONE.sub(r"\\sqrt{\1}", plain(text)))
    key = _KEY_SPACE.sub("", key.replace("$", "").replace("\\text{ ", "\\text{"))
    key = _KEY_DIGIT.sub(r"\1", key) if "\\" in key else key
    key = _TIMES.sub(r"\\cdot", key) if "\\times" in key else key
    key = _SUCH_THAT.sub(r"\1|", key) if key.startswith("\\{") else key
    return key if any(map(str.isalnum, key.replace("\\text{}", ""))) else ""


def _without_loose_braces(text: str) -> str:
    """Return a text with powers without the braces and brackets around one number that say nothing."""
    return _EXPONENT_IN_BRACKETS.sub(r"^{\1}", _BASE_IN_BRACKETS.sub(r"\1", _LOOSE_BRACES.sub(r"\1", text)))


def _unwrapped(text: str) -> str:
    """Return a text without braces around the whole of it."""
    if not text.startswith("{") or not text.endswith("}"):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if not depth:
            return text[1:-1].strip() if position == len(text) - 1 else text
    return text


def _beside(quotient: re.Match[str]) -> str:
    r"""Return `\frac{2 dx}{x}` as `\frac{2}{x} dx`."""
    return f"\\frac{{{quotient[1] or 1}}}{quotient[3]} d{quotient[2]}"


def _with_arguments(text: str) -> str:
    r"""Return a text with the arguments of fractions, binomials and roots in braces: `\frac\pi2`, `{1 \over 2}`."""
    if "\\over" in text or "\\choose" in text:
        text = _OVER.sub(_over, text if "{" in text or not _OVER_ALL.search(text) else f"{{{text}}}")
    text = _BARE_FRACTION.sub(_with_braces, text)
    text = _ROOT_OF_DIGIT.sub(r"\\sqrt\1{\2}", text) if "\\sqrt" in text else text
    return _RAISED_FRACTION.sub(r"^{\1}", text) if "^" in text else text


def _over(fraction: re.Match[str]) -> str:
    return f"\\{_OVERS[fraction[2]]}{{{fraction[1].strip()}}}{{{fraction[3].strip()}}}"


def _with_braces(fraction: re.Match[str]) -> str:
    over = fraction[2] if fraction[2] is not None else fraction[3]
    under = fraction[4] if fraction[4] is not None else fraction[5]
    return f"\\{fraction[1]}{{{over}}}{{{under}}}"


def _components(text: str) -> str:
    r"""Return `3\mathbf{i} - 2\mathbf{j}` as the tuple `(3,-2)`; another text as it is."""
    is_bracketed = text.startswith("(") and text.endswith(")") and text.count("(") == 1 and "," not in text
    marked, count = _UNIT_VECTOR.subn(r"[\1]", text[1:-1] if is_bracketed else text)
    if not count:
        return text
    parts, end = {}, 0
    for term in _VECTOR_TERM.finditer(marked):
        if term.start() != end or term[3] in parts:
            return text
        parts[term[3]], end = f"{term[1].replace('+', '')}{term[2] or 1}", term.end()
    if end != len(marked.rstrip()) or len(parts) < 2:
        return text
    return f"({','.join(parts.get(axis, '0') for axis in ('ijk' if 'k' in parts else 'ij'))})"
