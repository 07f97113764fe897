r"""Whether something stands in a box, a tag or a block that a reader can see: an empty one is no answer's shape.

In: the content. Out: whether it is blank. Blank are space and what has no width, LaTeX that only sets what it does not
hold (`\text{ }`, `\quad`, `\phantom{5}`), spaces and comments of HTML, empty boxes and tags, and marks that hold a
place for an answer (`...`, `\ldots`, `\square`, `?`). An operator is an answer, and so are `\emptyset` and, outside a
box, `{}`. Pure, linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final

from scorers.text.invisible import seen

_HTML: Final = re.compile(
    r"&(?:nbsp|ensp|emsp|thinsp|zwnj|zwj|shy|#160|#xa0);?|</?[A-Za-z][\w-]{0,30}\s?/?>", re.IGNORECASE
)
# What shows nothing with its argument, and without it.
_HIDING: Final = re.compile(
    r"\\(?:[hv]?phantom|[hv]space\*?|kern|color|label|tag|vskip|hskip|rule(?:\[[^\]\\]{0,40}\])?\s?\{[^{}]{0,40}\})\s?\{(?:[^{}]|\{[^{}]*\})*\}"
)
_SETTING: Final = re.compile(
    r"\\(?:text\w*|math[a-z]+|operatorname\*?|mbox|hbox|fbox|boxed|boldsymbol|underline|overline|ensuremath|displaystyle"
    r"|textstyle|bf|rm|it|sf|tt|large|Large|small|left|right|big[lr]?|hfill|vfill|q?quad|enspace|thinspace|newline|par"
    r"|phantom|null|strut|l?dots|[cdv]dots|dotsc|square|Box|blacksquare|blank|begin|end|nobreakspace|hspace|vspace)(?![A-Za-z])"
    r"|\\(?:[,;:!>\s\\()\[\]_]|\Z)"
)
_PLACEHOLDERS: Final = frozenset("~$.,;:?_'\"`\u2026\u00b7\u2019\u201c\u201d\u25a1\u25a0\u2610")


def is_blank(content: str, *, in_box: bool = False) -> bool:
    """Return whether nothing can be read in the content; `in_box`: braces are LaTeX's and show nothing themselves."""
    text = _HTML.sub(" ", _uncommented(seen(content)))
    if in_box or "\\" in text or "$" in text:
        text = _SETTING.sub(" ", _HIDING.sub(" ", text))
        text = text.replace("{", " ").replace("}", " ")
    return all(char in _PLACEHOLDERS or char.isspace() for char in text)


def _uncommented(text: str) -> str:
    """Return the text without comments of HTML; one that never ends is text."""
    kept, start = [], 0
    while (opening := text.find("<!--", start)) >= 0 and (closing := text.find("-->", opening + 4)) >= 0:
        kept.append(text[start:opening])
        start = closing + 3
    return "".join([*kept, text[start:]])


def has_ink(text: str) -> bool:
    """Return whether any character of a program or a file can be seen."""
    return bool(seen(text).strip())
