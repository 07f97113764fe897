r"""Spellings of mathematics are made one: signs, spaces, digit groups, mixed numbers, repeating decimals, ordinals.

In: an answer or a reference as people and models write it. Out: the same in the plain LaTeX that math_verify reads, or
a key that is the same for two texts that differ in layout alone. Nothing is computed but the value of a mixed number
and of a repeating decimal. Pure functions on texts of at most MAX_CHARS characters, linear in their length.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from scorers.math.doubts import doubts
from scorers.math.figures import in_figures, with_one_value
from scorers.math.spelling.layout import without_layout
from scorers.math.spelling.programs import in_latex

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
_SPACE: Final = re.compile(
    r"(?<!\\)\\[,;: ]|\\(?:q?quad|thinspace|medspace|thickspace|enspace)(?![A-Za-z])|~|\s+"
)
_NOTHING: Final = re.compile(
    r"\\!|\\(?:left|right|middle|big|Big|bigg|Bigg)[lrm]?(?![A-Za-z])|\\(?:display|text)style(?![A-Za-z])"
)
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
_CONDITION: Final = re.compile(
    r"\s*,?\s*&\s*(?!\s*(?:[-+=<>]|\\(?:le|ge|ne)(?![A-Za-z])))(?:\\text\{\s*(?:if|for|when|where)\s*\}|(?:if|for|when)\s)?\s*"
)
_GLUED: Final = re.compile(r"(?<=[0-9)\]}])(or|and)(?=[(\[]|[A-Za-z](?:\([a-z]\))?\s*[=<>])")
_IN_BRACKET: Final = re.compile(r"[(\[][^()\[\],;]*(?:;[^()\[\],;]*)+[)\]]|\\\{[^{},;]*(?:;[^{},;]*)+\\\}")
_LAST_JOINT: Final = re.compile(
    r"\s*,?\s*(?:\\text\{\s*,?\s*(?:and|or)\s*\}|(?<=[\s$,)])(?:and|or)(?=[\s\\$(]))\s*"
)
_OF_LETTERS: Final = re.compile(
    r"(?:[A-J]|[\s,()$]|\\text\{\s*(?:and|or)\s*\}|and|or)+"
)  # a choice of several
_LINES: Final = re.compile(r"\$[^$]+\$(?:\s*\n\s*\$[^$]+\$)+")  # `$x = 1$` above `$y = 2$`
_BARRED: Final = re.compile(
    r"\|\s*\\begin\{(array|matrix)\}(?:\{[lcr|]*\})?((?:(?!\\begin|\\end).)*)\\end\{\1\}\s*\|", re.DOTALL
)
_DOLLARS: Final = re.compile(r"\$([^$]+)\$\s*([A-Za-z][A-Za-z .]*[A-Za-z])")
_VALUE: Final = re.compile(r"-?\s*(?:[0-9]|\\(?:frac|dfrac|tfrac|sqrt)(?![A-Za-z]))")
_WIDE_JOINT: Final = re.compile(  # `\quad\text{or}\quad`
    r"(?:\\q?quad(?![A-Za-z])|\\[,;: ]|[\s~])*\\(?:text|mathrm|mbox)\{\s*(and|or)\s*\}"
    r"(?:\\q?quad(?![A-Za-z])|\\[,;: ]|[\s~])*"
)
_COMMA_AND: Final = re.compile(
    r"[,;]\s*(?:\\text\{\s*and\s*\}|and(?=[\s\\$(]))\s*|\\text\{\s*,\s*(?:and\s*)?\}\s*"
)
_COMMA_OR: Final = re.compile(r",\s*(?:\\text\{\s*or\s*\}|or(?=[\s\\$(]))\s*|\\text\{\s*,\s*or\s*\}\s*")
_WIDE: Final = re.compile(r"(?<![,;\s])\s*(?:\\q?quad(?![A-Za-z])|\n)\s*(?![,;\s])")
_EQUATION: Final = re.compile(r"[=<>]|\\(?:leq?|geq?|neq?|approx|equiv|in)(?![A-Za-z])")
_UPRIGHT: Final = re.compile(r"\\(?:mathrm|operatorname|text|mathit)\{\s*([ei])\s*\}")
_FUNCTION: Final = re.compile(
    r"\\operatorname\{(sin|cos|tan|cot|sec|csc|log|ln|exp|max|min|gcd|arcsin|arccos|arctan|sh|ch|th)\}"
    r"|\\(?:operatorname|mathrm|text)\{\s*(tg|ctg|cotg|cotan|arctg|arcctg|cosec|lg|[aA]rc(?:sin|cos|tan)|a(?:sin|cos|tan|cot|sec|csc)h?|sin|cos|tan|cot|ln|log|csc|exp|sinh|cosh|tanh)\s*\}"
)
_HYPERBOLIC: Final = {"sh": "sinh", "ch": "cosh", "th": "tanh"}
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
_GROUPED: Final = re.compile(r"(?<![0-9.,])([0-9]{1,3})((?: [0-9]{3})+|(?:\{,\}[0-9]{3})+)(?![0-9])")
_GROUPED_DECIMALS: Final = re.compile(
    r"(?<![0-9,])([0-9]*\.[0-9]{3})((?: [0-9]{3})*(?: [0-9]{1,3}))(?![0-9.,/])"
)
_MIXED: Final = re.compile(
    r"(?<![\w.}^)\]/])([0-9]{1,9})\s*(?:\\frac\{([0-9]{1,9})\}\{([0-9]{1,9})\}|\s([0-9]{1,9})/([0-9]{1,9}))(?![\w^/!(])"
)
_REPEATING: Final = re.compile(
    r"(?<![\w.])([0-9]{0,200})\.([0-9]{0,200})"
    r"(?:\\(?:overline|bar)\s*(?:\{([0-9]{1,200})\}|([0-9]))|\\dot\{?([0-9])\}?(?:([0-9]{0,200})\\dot\{?([0-9])\}?)?)"
    r"(?:\\ldots|\.\.\.)?(?![\w^])"
)
_IN_BRACKETS: Final = re.compile(r"(-?)([0-9]{1,200})\.([0-9]{0,200})\(([0-9]{1,200})\)")
_GOING_ON: Final = re.compile(r"(?<![\w.])([0-9]{0,200})\.([0-9]{3,200})\s*(?:\\ldots|\.\.\.)(?![\w^])")
_ORDINAL: Final = re.compile(
    r"([0-9]{1,30})\s*(?:\^?\s*\{?\s*\\(?:text|mathrm)\{\s*(?:st|nd|rd|th)\s*\}\s*\}?|\^\{?(?:st|nd|rd|th)\}?|st|nd|rd|th)"
)
_TEXT: Final = re.compile(r"\\text\{[A-Za-z ]*\}")
_SCIENTIFIC: Final = re.compile(r"(-?[0-9]{1,30}(?:\.[0-9]{1,30})?)[eE]([-+]?[0-9]{1,3})")
_SAID: Final = re.compile(
    r"\\text\{\s*(?:(?:there|the|a|so|thus|hence|therefore|final|correct|total|value|solution|result|number|sum|area|volume|length|answer|it)\b\s*,?\s*)*"
    r"(?:is|are|equals|:)?:?\s*\}\s*(?=[^\s=])",
    re.IGNORECASE,
)
_SAID_PLAIN: Final = re.compile(
    r"there\s+(?:is|are)\s+(?=[0-9])|(?:the\s+)?(?:final\s+)?answers?\s*(?:is|are|:)\s*(?=\S)", re.IGNORECASE
)
_SAID_BEHIND: Final = re.compile(
    r"\s*\\text\{\s*,?\s*(?:is|are)\s+(?:the|our|my)\s+(?:final\s+)?(?:answers?|solutions?)\s*\.?\s*\}\Z",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(
    r"\\text\{\s*((?:(?:so|thus|hence|therefore|then)\s*,?\s+)?(?:the|its|our)(?:\s+[a-z]{2,}){1,6}?)\s+"
    r"(?:is|are|equals?|=)\s*:?\s*\}\s*(?=\S)",
    re.IGNORECASE,
)
_OTHER_SUBJECT: Final = re.compile(  # of a sentence that may be about something else than the answer
    r"\b(?:is|are|was|has|and|or|of\s+(?:the|this|that)\s+(?:answer|result|solution|value)|twice|half|third|quarter|double"
    r"|triple|square\s+root|bound|between|limit\s+of|than|plus|minus|times|next|previous|original|old|first|second|last"
    r"|given|wrong|other|both|any|some|option|choice|estimate|approximation|trap|negative|opposite|reciprocal|inverse"
    r"|zero|one|two|three|four|five|six|seven|eight|nine|ten)\b",
    re.IGNORECASE,
)
_MONTHS: Final = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?)"
)
_DAY: Final = re.compile(rf"(?<![A-Za-z])({_MONTHS}\s+[0-3]?[0-9])(?:st|nd|rd|th)(?![A-Za-z])")
_BOXED_SIGN: Final = re.compile(r"\\text\{\s*([€£¥₹]|\\?\$|-?[0-9][0-9.]*\s*\\?%|[0-9]+(?:st|nd|rd|th))\s*\}")
_IN_PERCENT: Final = re.compile(r"(?:\\text\{\s*per\s?cent\s*\}|\s+per\s?cent)\s*\Z", re.IGNORECASE)
_CASES: Final = re.compile(r"\\begin\{cases\}(.*?)\\end\{cases\}", re.DOTALL)
_OF_DEGREES: Final = re.compile(
    r"\\(sin|cos|tan|cot|sec|csc)\s*(\^\s*\{?[0-9]\}?)?\s*[({]?\s*([0-9]+(?:\.[0-9]+)?)\s*\^\s*\{?\s*\\circ\s*\}?\s*[)}]?"
)
_UNIT_VECTOR: Final = re.compile(
    r"\\(?:mathbf|hat|vec|bm|boldsymbol)\s*\{\s*(?:\\(?:mathbf|imath|jmath)\s*\{?\s*)?([ijk])\s*\}*"
)
_VECTOR_TERM: Final = re.compile(r"\s*([-+]?)\s*([^-+ ]*(?:\{[^{}]*\})*)\s*\[([ijk])\]")
_POINTED: Final = re.compile(r"(?<![\w.])([0-9]+)\.(?=[/})\s+*=,-]|\Z)(?!\s*\.)")  # `1./3`
_DIFFERENTIAL: Final = re.compile(
    r"\\(?:mathrm|text|operatorname|rm)\s*(?:\{\s*d\s*\}|\s+d)\s*(?=[A-Za-z\\])"
)
_OVER_DIFFERENTIAL: Final = re.compile(  # `\frac{2 dx}{x}`, and no derivative
    r"\\frac\{([^{}]*?)\s*(?<![A-Za-z\\])d\s*([a-z])\s*\}(\{(?!\s*d\s*[a-z]\s*\})(?:[^{}]|\{[^{}]*\})*\})"
)
_HALF_OPEN: Final = re.compile(r"([\[\]])([^\[\](),]+,[^\[\](),]+)([\[\]])")
_COUNTED: Final = re.compile(r"\\text\{\s*(-?[0-9][0-9.,]*)(\s+[A-Za-z][A-Za-z ]*)\}")
_ROW_SPACE: Final = re.compile(r"\\\\\s*(?:\*\s*)?\[\s*-?[0-9.]+\s*(?:pt|em|ex|mm|cm|in|px|bp|pc)\s*\]")
_LOOSE_BRACES: Final = re.compile(
    r"(?:\A|(?<=[-+*/=(,{|<>])|(?<=[-+*/=(,{|<>] ))\{\s*(\w+)\s*\}(?![\w{])"  # `{10}^{5}`; none of a command's
)
_BASE_IN_BRACKETS: Final = re.compile(r"(?:\A|(?<=[-+*/=({]))\(([0-9]+)\)(?=\s*\^)")
_EXPONENT_IN_BRACKETS: Final = re.compile(r"(?<=[0-9])\s*\^\s*\{\s*\(([^()]*)\)\s*\}")
_TEXT_SET: Final = re.compile(r"\\text\{[^{}]*\}|\\[A-Za-z]+")
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
    text = _RAISED.sub(lambda raised: f"^{{{raised[0].translate(_RAISED_SIGNS)}}}", text)
    text = _LOWERED.sub(lambda lowered: f"_{{{lowered[0].translate(_LOWERED_SIGNS)}}}", text)
    return in_latex(without_layout(text))


@lru_cache(maxsize=256)
def plain(text: str) -> str:
    r"""Return a text in plain LaTeX: one spelling for each sign, space, fraction and number.

    Raises nothing: what is no mathematics comes back as it is, but for its spaces and signs.
    """
    if text.isascii() and text.isdigit():
        return text
    text = _in_plain_commands(_without_delimiters(text.strip()))
    if " " in text or "{,}" in text:
        text = _GROUPED_DECIMALS.sub(_joined, _GROUPED.sub(_joined, text))
    text = _IN_PERCENT.sub("\\%", _BOXED_SIGN.sub(r"\1", text))
    text = _OF_DEGREES.sub(r"\\\1\2(\\frac{\3\\pi}{180})", text)
    text = in_figures(_components(_without_words(with_one_value(_DAY.sub(r"\1", text)))))
    text = _REPEATING.sub(_repeating, text)
    text = _GOING_ON.sub(_going_on, text)
    text = _MIXED.sub(_mixed, text)
    if found := _IN_BRACKETS.fullmatch(text):
        text = found[1] + _fraction(found[2], found[3], found[4])
    if found := _SCIENTIFIC.fullmatch(text):
        text = f"{found[1]} \\times 10^{{{int(found[2])}}}"
    if found := _ORDINAL.match(text):
        rest = text[found.end() :].strip()
        if not rest or _TEXT.fullmatch(rest):
            text = found[1]
    if text.startswith("\\langle") and text.endswith("\\rangle"):
        text = f"({_CHEVRONS.sub('', text)})"
    elif text.startswith("<") and text.endswith(">") and "," in text:
        text = f"({text[1:-1]})"
    return text.strip()


def _with_conditions(cases: re.Match[str]) -> str:
    """Return the rows of cases as a list, each value with its condition."""
    rows = cases[1].strip().removesuffix("\\\\").replace("\\\\", ",")
    return _CONDITION.sub(r" \\text{ if } ", rows).replace("&", " ")


def _as_listed(text: str) -> str:
    r"""Return a list with commas alone between its values: `1, 2, \text{ and } 3`, `(1;2)`, `(1,2)or(3,4)`."""
    if ";" in text and "," not in text and "=" not in text and _COMMA_AND.search(text):
        text = text.replace(";", ",")
    text = _COMMA_OR.sub(r" \\text{ or } ", _COMMA_AND.sub(", ", _GLUED.sub(r" \1 ", text)))
    if ";" in text:
        text = _IN_BRACKET.sub(lambda found: found[0].replace(";", ","), text)
        if "," not in text and "=" not in text:
            text = text.replace(";", ",")
    is_list = "," in text and not _EQUATION.search(text) and not _OF_LETTERS.fullmatch(text)
    if is_list and _LAST_JOINT.search(text):
        text = _LAST_JOINT.sub(", ", text)
    return text


def _without_delimiters(text: str) -> str:
    if _LINES.fullmatch(text):
        return ", ".join(line.strip().strip("$").strip() for line in text.splitlines() if line.strip())
    if text.count("$") == 2 and "\\$" not in text:
        if text.startswith("$") and text.endswith("$"):
            return text[1:-1]
        if (counted := _DOLLARS.fullmatch(text)) is not None:
            return f"{counted[1]}\\text{{ {counted[2]}}}"
    is_set_apart = text.startswith(("\\(", "\\[")) and text.endswith(("\\)", "\\]"))
    return text[2:-2] if is_set_apart else text


def _in_plain_commands(text: str) -> str:
    """Return a text with one command for each sign, and with all arguments in braces."""
    text = text if text.isascii() else _in_ascii(text)
    text = text.replace("...", "\\ldots ") if "..." in text and not _GOING_ON.search(text) else text
    text = _WIDE_JOINT.sub(r" \\text{ \1 } ", text) if "\\text" in text else text
    text = _between_statements(text) if "quad" in text or "\n" in text else text
    text = _SPACE.sub(" ", _NOTHING.sub("", text)).strip()
    text = _COMMAND.sub(_synonym, _DEGREE.sub(r"^\\circ ", text))
    text = _COMPARED.sub(lambda sign: "<" if sign[1] == "lt" else ">", text)
    for sign, spelled in _AT_MOST.items():
        text = text.replace(sign, spelled)
    text = _FUNCTION.sub(_function, _UPRIGHT.sub(r"\1", _BOLD.sub(r"\1", text)))
    text = (
        _PRIMES.sub(lambda primes: "'" * (primes[1] or "p").count("p"), text) if "\\prime" in text else text
    )
    if "_" in text:
        text = _LOG_E.sub(r"\\ln ", text)
        text = _SUBSCRIPT.sub(r"_{\1}", _BARE_INDEX.sub(r"_{\1}", text))
    text = _BARE_BOARD.sub(r"\\mathbb{\1}", text) if "bb" in text else text
    text = _ROW_SPACE.sub(r"\\\\ ", text) if "\\\\" in text else text
    text = _CASES.sub(_with_conditions, text) if "cases" in text else text
    text = _DIFFERENTIAL.sub("d", text) if "\\int" in text else text
    text = _OVER_DIFFERENTIAL.sub(_beside, text) if "\\int" in text else text
    text = text.replace("\\equiv", "=") if "\\equiv" in text and "mod" not in text else text
    text = _POINTED.sub(r"\1", text) if ". " in text or "./" in text or ".}" in text else text
    text = _HALF_OPEN.sub(_bracketed, text) if "[" in text else text
    text = (
        _BARRED.sub(r"\\begin{vmatrix}\2\\end{vmatrix}", text.replace("\\vert", "|"))
        if "\\begin" in text
        else text
    )
    text = _with_arguments(text) if "\\" in text else text
    text = _as_listed(text) if ";" in text or "or" in text or "and" in text else text
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


def _between_statements(text: str) -> str:
    r"""Return a text with a comma for the wide space between two relations: `x = 1 \quad y = 2`."""
    if "\\begin" in text:
        return text

    def joined(space: re.Match[str]) -> str:
        beside = text[: space.start()], text[space.end() :]
        if not any(map(str.isalnum, _TEXT_SET.sub("", beside[0]))) or beside[0].rstrip()[-1:] in (
            "=",
            "(",
            ":",
        ):
            return " "  # nothing is said before it
        is_quad = "quad" in space[0] and bool(beside[0]) and _VALUE.match(beside[1]) is not None
        return ", " if is_quad or all(map(_EQUATION.search, beside)) else space[0]

    return _WIDE.sub(joined, text)


def _in_ascii(text: str) -> str:
    """Return a text with the commands of the signs that stand in it."""
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], text)
    return _ROOT_SIGN.sub(lambda root: f"\\sqrt{_ROOTS[root[1]]}{{{root[2] or root[3] or root[4]}}}", text)


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


def _synonym(command: re.Match[str]) -> str:
    found = _SYNONYMS.get(command[1], command[1])
    return found if found == ":" else f"\\{found}"


def _bracketed(interval: re.Match[str]) -> str:
    """Return `]1, 3[` as `(1, 3)`: a bracket that is turned away from its bound leaves it out."""
    if interval[1] == "[" and interval[3] == "]":
        return interval[0]
    return f"{'(' if interval[1] == ']' else '['}{interval[2]}{')' if interval[3] == '[' else ']'}"


def _beside(quotient: re.Match[str]) -> str:
    r"""Return `\frac{2 dx}{x}` as `\frac{2}{x} dx`."""
    return f"\\frac{{{quotient[1] or 1}}}{quotient[3]} d{quotient[2]}"


def _function(name: re.Match[str]) -> str:
    found = (name[1] or name[2]).lower()
    if found.startswith("a") and not found.startswith("arc"):
        return f"\\arc{found[1:]}"  # `asin`, as sympy writes it
    found = _HYPERBOLIC.get(found) or _SYNONYMS.get(found, found)
    return f"\\{found}"


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


def _joined(number: re.Match[str]) -> str:
    return number[1] + re.sub(r"[^0-9]", "", number[2])


def _without_words(text: str) -> str:
    """Return the text without words that only introduce its value."""
    text = _COUNTED.sub(r"\1\\text{\2}", text) if text.startswith("\\text{") else text
    text = text[: found.start()] if "\\text" in text and (found := _SAID_BEHIND.search(text)) else text
    said = _SAID.match(text) or _SAID_PLAIN.match(text) or _sentence(text)
    return text if said is None else text[said.end() :]


def _sentence(text: str) -> re.Match[str] | None:
    r"""Return `\text{The vertex is }` before a value; None where it speaks of another value, or doubts this one."""
    said = _SENTENCE.match(text)
    if said is None or _OTHER_SUBJECT.search(said[1]) or doubts(said[0]):
        return None
    return said


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


def _mixed(number: re.Match[str]) -> str:
    whole, over, under = int(number[1]), int(number[2] or number[4]), int(number[3] or number[5])
    return f"\\frac{{{whole * under + over}}}{{{under}}}" if 0 < over < under and whole else number[0]


def _repeating(number: re.Match[str]) -> str:
    whole, fixed = number[1], number[2]
    dotted = "".join(part or "" for part in number.groups()[4:])
    return _fraction(whole, fixed, number[3] or number[4] or dotted)


def _going_on(number: re.Match[str]) -> str:
    """Return a decimal that goes on as a fraction, where its last digits show a period.

    That is one digit three times, or several digits twice.
    """
    whole, digits = number[1], number[2]
    for length in range(1, len(digits) // 2 + 1):
        times = 3 if length == 1 else 2
        period = digits[-length:]
        if len(digits) >= times * length and digits.endswith(period * times):
            fixed = digits[: -times * length]
            while fixed.endswith(period):
                fixed = fixed[:-length]
            return _fraction(whole, fixed, period)
    return number[0]


def _fraction(whole: str, fixed: str, period: str) -> str:
    value = int(f"{whole or 0}{fixed}") + Fraction(int(period), 10 ** len(period) - 1)
    value /= 10 ** len(fixed)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
