"""Parse a docstring's text about a function and its parameters: Google's sections, NumPy's, or reST's fields.

In: a docstring. Out: its description, and a text for each parameter that it describes.
"""

from __future__ import annotations

import inspect
import re
from typing import Dict, List, Tuple

ARGUMENTS = "Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters"
OTHERS = "Returns?|Yields?|Raises|Examples?|Notes?|Warnings?|References|See Also|Attributes|Todo"
_GOOGLE = re.compile(rf"(?P<arguments>{ARGUMENTS})\s*:\s*$|(?:{OTHERS})\s*:", re.IGNORECASE)
_NUMPY = re.compile(rf"(?P<arguments>{ARGUMENTS})$|(?:{OTHERS})$")
_GOOGLE_NAME = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_NAME = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")
_REST_NAME = re.compile(r":(?:param|parameter|arg|argument|key)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_REST_OTHER = re.compile(r":\w+(?:\s[^:]*)?:")


def read(docstring: str) -> Tuple[str, Dict[str, str]]:
    """Return the description, and the text about each parameter, in one line."""
    description: List[str] = []
    parameters: Dict[str, List[str]] = {}
    current = description  # the part that gets the next line
    style, level = "", 0  # of the line's section, and the indentation of its names
    lines = inspect.cleandoc(docstring).split("\n")
    for number, line in enumerate(lines):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        underline = lines[number + 1].strip() if number + 1 < len(lines) else ""
        numpy = _NUMPY.match(text) if len(underline) > 2 and not underline.strip("-") else None
        google = _GOOGLE.match(text) if indent == 0 else None
        if found := numpy or google:
            style = ("numpy" if numpy else "google") if found["arguments"] else "other"
            current, level = [], -1
        elif rest := _REST_NAME.match(text):
            style, current = "rest", parameters.setdefault(rest[1], [])
            current.append(rest[2])
        elif _REST_OTHER.match(text):
            style, current = "rest", []
        elif style in ("google", "numpy") and text:
            level = indent if level < 0 else level
            name = (
                (_GOOGLE_NAME if style == "google" else _NUMPY_NAME).match(text) if indent <= level else None
            )
            if name:
                current = parameters.setdefault(name[1], [])
            current.append(name[2] if name and style == "google" else "" if name else text)
        elif text or current is description:
            current.append(text)
    said = {name: " ".join(filter(None, parts)) for name, parts in parameters.items()}
    return "\n".join(description).strip(), said
