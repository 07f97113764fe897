r"""The words in a piece of LaTeX: `\text{Paris}` is Paris, `5\,\%` is 5%.

In: the content of a box, or a reference. Out: the same without the commands and braces that only set it. Pure
functions, linear in the length of the text, for answers that are compared as words and plain numbers; what is read as
mathematics goes to `scorers.math.text`.
"""

from __future__ import annotations

import re
from typing import Final

_COMMAND: Final = re.compile(
    r"\\(?:text\w*|math\w+|mbox|operatorname|boldsymbol|bf|rm|it)\s*(?=\{)"  # what sets its argument
    r"|\\(?P<escaped>[%&_#{}])"
    r"|\\[,!()\[\]]|\\?\$"  # thin space, marks of mathematics
    r"|(?P<space>\\[;: ]|\\q?quad\b|~)"
    r"|[{}]"
)
_FRACTION: Final = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")


def words(text: str) -> str:
    r"""Return `text` without what only sets it, `\frac{a}{b}` as ` a/b`, `$` and `\$` left out, spaces squeezed."""
    text = _COMMAND.sub(_set, _FRACTION.sub(r" \1/\2", text))
    return " ".join(text.split())


def _set(command: re.Match[str]) -> str:
    return command["escaped"] or (" " if command["space"] else "")
