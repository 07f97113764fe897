"""Programs in one text, each below its name."""

from __future__ import annotations

import re


def named(text: str) -> dict[str, str]:
    """Return programs by the names that stand above them, behind `###`."""
    _, *parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))
