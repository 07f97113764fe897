"""A row about a patch with its repository and its tests, for those who check it out."""

from __future__ import annotations

from typing import Any

SHOP = "def total(prices):\n    return 0\n"
FIXED = "def total(prices):\n    return sum(prices)\n"
TESTS = (
    "from shop.prices import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n\n\n"
    "def test_more():\n    assert total([7]) == 7\n"
)


def shop_row(**more: Any) -> dict[str, Any]:
    """The verification_info."""
    answer = {
        "code_context": {"shop/prices.py": SHOP},
        "oracle_new_content": {"shop/prices.py": FIXED},
        "files": {"shop/__init__.py": "", "tests/test_prices.py": TESTS},
        "test_command": "pytest tests/test_prices.py",
        **more,
    }
    return {"type": "swe", "answer": {name: value for name, value in answer.items() if value is not None}}


MESSAGES = [{"role": "user", "content": "The total of a list of prices is always 0. Mend that."}]
ROW = {**shop_row(), "messages": MESSAGES}
WITHOUT_TESTS = {**shop_row(files=None, test_command=None), "messages": MESSAGES}
