r"""What only sets a formula is taken away: colours, boxes, fonts, skips, phantoms, environments around one statement.

In: an answer or a reference as people and models write it. Out: what a reader sees of it, in the same LaTeX; indices
stand below before above (`x^2_1` is `x_1^2`), digit groups are joined, and a final full stop is gone. Braces that hold
something together stay, and nothing is computed. Run by `scorers.math.notation.respelled`. Pure functions on texts of
at most MAX_CHARS characters, linear in their length; what is cut off or unbalanced comes back as it is.
"""

from __future__ import annotations

import re
from typing import Final

# Commands by the number of their arguments; of the second table the last argument is seen.
_UNSEEN: Final = {
    **dict.fromkeys(
        ("hspace", "vspace", "phantom", "hphantom", "vphantom", "mspace", "label", "tag", "color", "pagecolor"), 1
    ),
    "fontsize": 2,
    "rule": 2,
}  # fmt: skip
_SEEN: Final = {
    **dict.fromkeys(
        ("ensuremath", "smash", "mathord", "mathbin", "mathrel", "mathopen", "mathclose", "mathpunct", "mathinner",
         "mathop", "fbox", "boxed", "framebox", "bbox", "underline", "uline", "rlap", "llap", "clap", "mathrlap",
         "mathllap", "mathclap"), 1
    ),
    **dict.fromkeys(("textcolor", "colorbox", "raisebox", "scalebox", "class", "style", "cssId"), 2),
    "resizebox": 3,
    "fcolorbox": 3,
}  # fmt: skip
_SWITCHES: Final = (
    "displaystyle|textstyle|scriptstyle|scriptscriptstyle|limits|nolimits|displaylimits|strut|mathstrut|allowbreak"
    "|nobreak|noindent|centering|large|Large|LARGE|huge|Huge|small|footnotesize|scriptsize|tiny|normalsize|boldmath"
    "|unboldmath|nonumber|notag|relax|leavevmode|protect|bfseries|mdseries|itshape|upshape|rmfamily|sffamily|normalfont|normalcolor"
)
_LENGTH: Final = r"\s*-?[0-9.]+\s*(?:pt|em|ex|mm|cm|in|px|bp|pc|mu)"
_SET: Final = re.compile(
    rf"\\(?:(?P<switch>{_SWITCHES}|/|(?:left|right|[bB]igg?[lrm]?)\s*\.)(?![A-Za-z])\s*"
    rf"|(?P<skip>hfill?|(?:hskip|vskip|kern|mkern|mskip){_LENGTH})(?![A-Za-z])"
    rf"|(?P<command>{'|'.join((*_UNSEEN, *_SEEN))})\*?(?![A-Za-z]))"
)
# What parts that between which it stands.
_WIDE: Final = re.compile(r"\\(?:[hm]space|h?phantom|hskip|m?kern|mskip|hfill?)(?!\*?\s*\{?\s*-)")
_EVALUATED: Final = re.compile(
    r"\\right\s*(?:\||\\[lr]?vert)"
)  # `\left. x^2 \right|_0^1`: its dot has a meaning
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_OPTIONS: Final = re.compile(r"\s*(?:\[[^\[\]]*\]\s*)*")
_COMMAND_END: Final = re.compile(r"\\[A-Za-z]+\Z")
_NEEDS_BRACES: Final = re.compile(r"(?:[\^_}\]]|\\[A-Za-z]+)\s*\Z")  # before them: they hold an argument
_RAISED: Final = re.compile(r"\s*[\^_]")

_SETS: Final = re.compile(
    rf"{_SET.pattern}|\\begin|\\operatorname\*|\{{\s*\\(?:text|mathrm)\s*\{{"
    r"|\\(?:text(?:up|md|sl|sc|sf|tt|rm|normal)|hbox|emph|rm|sf|tt|sl|sc|em|it|bf|cal)(?![A-Za-z])"
    r"|\\(?:text|mathrm)\{\s*[-$0-9A-Za-z]+\s*[=}]|\A\\(?:mathbf|boldsymbol|bm|bold|pmb)\s*\{"
)
_TEXT: Final = re.compile(r"\\(?:text(?:up|md|sl|sc|sf|tt|rm|normal)|hbox|emph)(?=\s*\{)")
_FONT: Final = re.compile(r"\{\s*\\(rm|sf|tt|sl|sc|em|it|bf|cal)(?![A-Za-z])\s*([^{}]*)\}")
_FONT_OF_GROUP: Final = re.compile(r"\\(rm|sf|tt|sl|sc|em|it|bf|cal)(?=\s*\{)")
_FONTS: Final = {"it": "mathit", "bf": "mathbf", "cal": "mathcal"}
_FONT_TO_END: Final = re.compile(r"\\rm(?![A-Za-z])\s*([A-Za-z][A-Za-z/ ]*)\Z")
_ALL_IN_FONT: Final = re.compile(  # a statement, and no name
    r"\\(?:mathbf|boldsymbol|bm|bold|pmb|mathrm|mathit|mathnormal)\s*\{((?=[^{}]*[0-9=+\\])(?:[^{}]|\{[^{}]*\})*)\}"
    r"|\\(?:text|textbf|mbox)\s*\{\s*(?:\$([^${}]*(?:\{[^{}]*\}[^${}]*)*)\$|([A-Za-z]\s*=\s*-?[0-9./]+))\s*\}"
)
_ONE_CELL: Final = re.compile(
    r"\\begin\{(array|matrix|smallmatrix)\}(?:\{[^{}]*\})?((?:(?!\\\\|\\begin)[^&])*)\\end\{\1\}", re.DOTALL
)
_NO_GROUP: Final = re.compile(r"(?:\A|(?<=[0-9)\]]))\{\}(?!\s*[_^{])")
_PART_IN_TEXT: Final = re.compile(
    r"(?:\A|(?<=[{(=+*/,-]))\\(?:text|mathrm)\{\s*(-?[0-9]+(?:\.[0-9]+)?)\s*\}(?!\s*[\^_A-Za-z0-9])"
)

_UNITS_OVER: Final = re.compile(  # `\frac{\text{m}}{\text{s}^2}`
    r"\\[dt]?frac\s*\{\s*((?:[0-9.]+[\s~]*)?(?:\\[,;:! ])*\\(?:text|mathrm)\{[A-Za-z ]+\}(?:\^\{?[0-9]\}?)?)\s*\}"
    r"\s*\{\s*(\\(?:text|mathrm)\{[A-Za-z ]+\}(?:\^\{?[0-9]\}?)?)\s*\}"
)
_ENVIRONMENT: Final = re.compile(
    r"\\begin\s*\{(aligned|align|gathered|gather|split|equation|displaymath|math|center|multline|eqnarray|flalign"
    r"|alignedat|alignat)(\*?)\}(?:\s*\[[tbc]\])?(?:(?<=at\})\{[0-9]\}|(?<=at\*\})\{[0-9]\})?(.*?)\\end\s*\{\1\2\}",
    re.DOTALL,
)
_SYSTEM: Final = re.compile(  # what `cases` sets, in its longer spelling
    r"\\left\s*(?:\\\{|\\lbrace(?![A-Za-z]))\s*\\begin\{(aligned|array|alignedat|gathered|split)\}(?:\{[^{}]*\})?"
    r"((?:(?!\\begin|\\end).)*)\\end\{\1\}\s*\\right\s*\.",
    re.DOTALL,
)
_MOST_ENVIRONMENTS: Final = 20  # of a text whose rows are read
_ROWS: Final = re.compile(r"\\\\(?:\s*\[[^\[\]]*\])?")
_GOES_ON: Final = re.compile(
    r"\s*&?\s*(?:[=<>]|\\(?:le|ge|leq|geq|lt|gt|ne|neq|approx|equiv)(?![A-Za-z]))|\s*&\s*(?:[-+]|\\(?:cdot|times)(?![A-Za-z]))"
)
_NESTED: Final = re.compile(r"\\begin\s*\{(\w+\*?)\}.*?\\end\s*\{\1\}", re.DOTALL)
_CONDITION: Final = re.compile(r"\b(?:if|otherwise|whether|unless|assuming)\b")

_LEADING: Final = re.compile(
    r"(?:\s|~|&|\\[,;:! ]|\\q?quad(?![A-Za-z])|∴|\\(?:therefore|implies|Rightarrow|Longrightarrow)(?![A-Za-z])"
    r"|=(?![=<>]))+"
)
_LAST: Final = (
    "\\,", "\\;", "\\:", "\\!", "~", "\\quad", "\\qquad", "\\qed", "\\blacksquare", "\\checkmark", "✓", "✔", "\\\\",
    "\\text{.}", "。",
)  # fmt: skip
_WRAPPERS: Final = (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("`", "`"), ("**", "**"))
_NO_END: Final = ".+-*/=<>,;:([\\"  # what a sentence's full stop does not follow

_FLAT: Final = r"\{[^{}]*\}"
_DEEPER: Final = rf"\{{[^{{}}]*(?:{_FLAT}[^{{}}]*)*\}}"
_ARGUMENT: Final = rf"(?:\{{[^{{}}]*(?:{_DEEPER}[^{{}}]*)*\}}|\\[A-Za-z]+|[^\s{{}}\\^_])"
_UPSIDE_DOWN: Final = re.compile(rf"(\^\s*{_ARGUMENT}|'+)\s*(_\s*{_ARGUMENT})")
_INDEXED: Final = re.compile(r"(?<![A-Za-z}])\{\s*([A-Za-z]_(?:\w|\{\w+\}))\s*\}(?=\s*\^)")
_DEEPEST_INDEX: Final = 3  # indices within indices

_MARK: Final = (  # between thousands
    r"(?:\s*(?:\\!\s*)+,\s*(?:\\!\s*)*|\s*,\s*(?:\\!\s*)+|\{\s*(?:\\!\s*)*,\s*(?:\\!\s*)*\}\s*(?:\\[,!])?|\\text\{,\}"
    r"|\{\\[,;:]\}|\\_|_|,)"
)
_GROUPED: Final = re.compile(rf"(?<![\w.,}}\\])([0-9]{{1,3}})((?:{_MARK}[0-9]{{3}})+)(?![0-9_])")
_QUOTED: Final = re.compile(r"(-?)([0-9]{1,3}(?:(?:(?:'|\u2019|\{'\})[0-9]{3})+|(?:\.[0-9]{3}){2,}))")
_NO_DIGIT: Final = re.compile(r"[^0-9]+")


def without_layout(text: str) -> str:
    """Return what a reader sees of a text; see the module."""
    text = _unwrapped(text)
    if "\\" in text and _SETS.search(text) is not None:
        text = _in_one_line(text) if 0 < text.count("\\begin") <= _MOST_ENVIRONMENTS else text
        text = text.replace("\\operatorname*", "\\operatorname")
        text = _in_fonts_of_today(text)
        text = _without_commands(text)
        text = _UNITS_OVER.sub(r"\1/\2", _PART_IN_TEXT.sub(r"\1", text))
    if (leading := _LEADING.match(text)) is not None:
        text = text[leading.end() :]
    text = _ended(_NO_GROUP.sub("", text) if "{}" in text else text)
    if "_" in text:
        text = with_lower_first(text) if "^" in text or "'" in text else text
    return without_groups(text)


def with_lower_first(text: str) -> str:
    r"""Return a text with what stands below before what stands above: `\sum_{k=1}^n` for `\sum^n_{k=1}`."""
    text = _INDEXED.sub(r"\1", text)
    for _ in range(_DEEPEST_INDEX):
        turned = _UPSIDE_DOWN.sub(r"\2\1", text)
        if turned == text:
            break
        text = turned
    return text


def without_groups(text: str) -> str:
    r"""Return a text whose thousands are parted by blanks and plain commas alone: `11,\! 111` is 11111."""
    is_pair = text[:1] in ("(", "[") and text[-1:] in (")", "]") and text.count(",") == 1
    if not is_pair and ("\\!" in text or "{" in text or "_" in text):
        text = _GROUPED.sub(_joined, text)
    if text[-1:].isdigit() and (found := _QUOTED.fullmatch(text)) is not None:
        return found[1] + _NO_DIGIT.sub("", found[2])
    return text


def _joined(number: re.Match[str]) -> str:
    """Return the digits alone, where a mark between them is more than a comma, which may part a list."""
    is_marked = number[2].replace(",", "").isdigit() is False
    return number[1] + _NO_DIGIT.sub("", number[2]) if is_marked else number[0]


def _unwrapped(text: str) -> str:
    """Return a text without the marks of mathematics or of code that stand around the whole of it."""
    for opening, closing in _WRAPPERS:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening + closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner and closing not in inner:
                return inner.strip()
    return text


def _ended(text: str) -> str:
    """Return a text without its full stop, and without what is set behind its end."""
    while True:
        shorter = text.rstrip()
        if shorter.endswith(_LAST):
            shorter = shorter.removesuffix(
                next(filter(shorter.endswith, sorted(_LAST, key=len, reverse=True)))
            )
        elif shorter.endswith("\\") or (
            shorter.endswith(".") and (shorter[-2:-1] not in _NO_END or shorter[:-1].endswith(_LAST))
        ):
            shorter = shorter[:-1]
        if shorter == text:
            return text
        text = shorter


def _in_one_line(text: str) -> str:
    """Return the statements of an environment side by side; a row that begins with a relation goes on with the last."""
    if (cell := _ONE_CELL.fullmatch(text)) is not None:
        return cell[2].strip()
    text = _SYSTEM.sub(r"\\begin{cases}\2\\end{cases}", text)
    return _ENVIRONMENT.sub(_statements, text)


def _statements(environment: re.Match[str]) -> str:
    inner = environment[3]
    if "\\begin" in inner:
        outside = _NESTED.sub("", inner)
        return environment[0] if "&" in outside or "\\\\" in outside else inner.strip()
    if _CONDITION.search(inner):
        return environment[0]
    rows = [row.strip().rstrip(",;") for row in _ROWS.split(inner)]
    joined = ""
    for row in filter(None, rows):
        joined += row if not joined else f" {row}" if _GOES_ON.match(row) else f", {row}"
    return joined.replace("\\&", "\\text{\\&}").replace("&", " ").strip() if joined else ""


def _in_fonts_of_today(text: str) -> str:
    r"""Return a text whose words stand in `\text` and its like, and no statement whole in a font of its own."""
    text = _FONT.sub(_in_font, _TEXT.sub(r"\\text", text))
    text = _FONT_OF_GROUP.sub(lambda font: f"\\{_FONTS.get(font[1], 'text')}", text)
    text = _FONT_TO_END.sub(r"\\text{\1}", text)
    if (whole := _ALL_IN_FONT.fullmatch(text)) is not None:
        return (whole[1] or whole[2] or whole[3] or "").strip()
    return text


def _in_font(group: re.Match[str]) -> str:
    r"""Return `{\rm cm}` as `\text{cm}`, in braces where it is an argument."""
    text = f"\\{_FONTS.get(group[1], 'text')}{{{group[2]}}}"
    return (
        f"{{{text}}}"
        if _NEEDS_BRACES.search(group.string, max(0, group.start() - 24), group.start())
        else text
    )


def _without_commands(text: str) -> str:
    """Return a text without the commands that set it, and without the braces that only they needed."""
    closings = _closings(text)
    cuts: list[tuple[int, int]] = []
    is_evaluated = _EVALUATED.search(text) is not None
    for command in _SET.finditer(text):
        name, start = command["command"], command.start()
        if is_evaluated and command[0].startswith("\\left"):
            continue
        if name is None:
            cuts.append(command.span())
            continue
        count = _UNSEEN.get(name) or _SEEN[name]
        groups, end = _arguments(text, command.end(), count, closings)
        if len(groups) < count:
            continue
        if name in _SEEN:
            cuts += _around(text, groups[-1], start, closings)
            continue
        cuts.append((start, end))
        if name == "color":
            opening = len(text[:start].rstrip()) - 1
            following = _arguments(text, end, 1, closings)[0]
            if text[opening : opening + 1] == "{" and opening in closings:
                cuts += _around(text, opening, opening, closings)
            elif following:
                cuts += _around(text, following[0], start, closings)
    return _cut(text, sorted(cuts))


def _arguments(text: str, at: int, count: int, closings: dict[int, int]) -> tuple[list[int], int]:
    """Return where so many groups in braces open, fewer where there are no more, and where the last one ends."""
    groups: list[int] = []
    end = at
    for _ in range(count):
        if (options := _OPTIONS.match(text, end)) is None or options.end() not in closings:
            break
        groups.append(options.end())
        end = closings[options.end()] + 1
    return groups, end


def _around(text: str, opening: int, start: int, closings: dict[int, int]) -> list[tuple[int, int]]:
    """Return what is left out around the content of a group; its braces only where they are no argument's."""
    closing = closings[opening]
    holds = _NEEDS_BRACES.search(text, max(0, start - 24), start) or _RAISED.match(text, closing + 1)
    return [(start, opening)] if holds else [(start, opening + 1), (closing, closing + 1)]


def _closings(text: str) -> dict[int, int]:
    """Return where each brace that is closed opens, and where it closes."""
    closings: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened:
            closings[opened.pop()] = brace.start()
    return closings


def _cut(text: str, cuts: list[tuple[int, int]]) -> str:
    """Return a text without some of its spans; a blank stands for a wide one, and ends the name of a command."""
    kept, at, is_wide = "", 0, False
    for start, end in [*cuts, (len(text), len(text))]:
        if piece := text[at:start]:
            grows = piece[0].isalpha() and _COMMAND_END.search(kept, max(0, len(kept) - 24)) is not None
            kept += f" {piece}" if grows or is_wide else piece
            is_wide = False
        is_wide = is_wide or (start >= at and _WIDE.match(text, start) is not None)
        at = max(at, end)
    return kept.strip()
