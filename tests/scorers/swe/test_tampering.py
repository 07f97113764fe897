"""What decides a test is the row's, wherever it stands; what is mended elsewhere than in the reference still counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from config.scorers import ScorersConfig
from scorers.swe.rows import read_row
from scorers.swe.trial import Trial
from tests.scorers.swe.shops import MENDED, NEW_FILES, PRICE, PRICE_PATH, SHOPS, TEST_PATH, Shop
from tests.scorers.swe.texts import edits

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    running = Trial(ScorersConfig())
    yield running
    running.close()


def values(trial: Trial, shop: Shop, *written: Mapping[str, str]) -> list[float | None]:
    """Return what each edit of one row is worth."""
    info = edits({PRICE_PATH: shop.price}, shop.reference)
    test_path = next((path for path in shop.all_files if "/tests/test" in path), TEST_PATH)
    info["answer"] |= {"files": shop.all_files, "test_command": f"pytest {test_path}"}
    row = read_row(info)
    assert row.tests is not None
    return [trial.verdict(row, row.tests, one, time.monotonic() + 60.0)[0] for one in written]


@pytest.mark.parametrize("name", SHOPS)
def test_what_a_test_goes_by_can_not_be_edited(trial: Trial, name: str) -> None:
    """A row that its reference does not pass would be unscorable, so 0.0 says of both what it should."""
    assert values(trial, SHOPS[name], SHOPS[name].attack) == [0.0]


def test_no_new_file_is_heard_by_those_who_run_the_tests(trial: Trial) -> None:
    shop = Shop(
        "import operator\nfrom shop.price import total\n\ndef test_total():\n    assert operator.eq(total([1]), 1)\n",
        {},
        {},
    )
    assert values(trial, shop, NEW_FILES, {**NEW_FILES, **shop.reference}) == [0.0, 1.0]


CORE = "def add(prices):\n    return sum(prices) + 1\n"
ON_CORE = "from shop.core import add\n\ndef total(prices):\n    return add(prices)\n"
CORE_MENDED = ON_CORE.replace("add(prices)\n", "add(prices) - 1\n")
TOTAL_TEST = "from shop.price import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"


TEXT = Shop(
    f"from shop.text import shown\n{TOTAL_TEST}\ndef test_shown():\n    assert shown(3) == '3 EUR'\n",
    {"shop/text.py": "def shown(price):\n    return f'{price} EUR'\n"},
    {},
)
HONEST: dict[str, tuple[Shop, dict[str, str]]] = {
    "in a module below": (
        Shop(TOTAL_TEST, {"shop/core.py": CORE}, {}, price=ON_CORE, mended=CORE_MENDED),
        {"shop/core.py": CORE.replace(" + 1", "")},
    ),
    "in a module below that is tested too": (
        Shop(
            f"from shop.core import add\n{TOTAL_TEST}\ndef test_add():\n    assert add([]) in (0, 1)\n",
            {"shop/core.py": CORE},
            {},
            price=ON_CORE,
            mended=CORE_MENDED,
        ),
        {"shop/core.py": CORE.replace(" + 1", "")},
    ),
    "in the package that offers it": (
        Shop(TOTAL_TEST.replace("shop.price", "shop"), {}, {}, init="from .price import total\n"),
        {
            "shop/__init__.py": "from .price import total as _total\n\ndef total(prices):\n    return _total(prices) - 1\n"
        },
    ),
    "in a module above that tests alone import": (
        Shop(
            TOTAL_TEST.replace("shop.price", "shop.api"),
            {
                "shop/api.py": "from .price import total as _total\n\ndef total(prices):\n    return _total(prices)\n"
            },
            {},
        ),
        {
            "shop/api.py": "from .price import total as _total\n\ndef total(prices):\n    return _total(prices) - 1\n"
        },
    ),
    "in a new module": (
        Shop(TOTAL_TEST, {}, {}),
        {
            "shop/own.py": "def total(prices):\n    return sum(prices)\n",
            PRICE_PATH: "from .own import total\n",
        },
    ),
    "by a constant": (
        Shop(
            f"from shop.price import EXTRA\n{TOTAL_TEST}\ndef test_extra():\n    assert EXTRA == EXTRA + 0\n",
            {},
            {},
            price="EXTRA = 1\n\ndef total(prices):\n    return sum(prices) + EXTRA\n",
            mended="EXTRA = 1\n\ndef total(prices):\n    return sum(prices)\n",
        ),
        {PRICE_PATH: "EXTRA = 0\n\ndef total(prices):\n    return sum(prices) + EXTRA\n"},
    ),
    "with another function of the same file": (
        Shop(
            f"from shop.price import count\n{TOTAL_TEST}\ndef test_count():\n    assert count([1]) == 1\n",
            {},
            {},
            price=f"{PRICE}\ndef count(prices):\n    return len(prices)\n",
        ),
        {
            PRICE_PATH: f"def total(prices):\n{MENDED}\ndef count(prices):\n    return sum(1 for _ in prices)\n"
        },
    ),
    "with what another module has": (
        TEXT,
        {
            PRICE_PATH: "from .text import number\n\ndef total(prices):\n    return sum(map(number, prices))\n",
            "shop/text.py": f"{TEXT.files['shop/text.py']}\ndef number(price):\n    return price\n",
        },
    ),
    "with an assert of its own": (
        SHOPS["a constant of the program"],
        {
            PRICE_PATH: f"def total(prices):\n    assert prices is not None\n{MENDED}\n"
            "from shop.limits import LIMIT\n\ndef is_dear(prices):\n    return total(prices) > LIMIT\n"
        },
    ),
}


@pytest.mark.parametrize("where", HONEST)
def test_a_fault_that_is_mended_elsewhere_than_in_the_reference_is_mended(trial: Trial, where: str) -> None:
    shop, written = HONEST[where]
    assert values(trial, shop, written) == [1.0]


BREAKING: dict[str, tuple[Shop, dict[str, str]]] = {
    "a function beside": (
        HONEST["with another function of the same file"][0],
        {PRICE_PATH: f"def total(prices):\n{MENDED}\ndef count(prices):\n    return 7\n"},
    ),
    "a function beside that is gone": (
        HONEST["with another function of the same file"][0],
        {PRICE_PATH: f"def total(prices):\n{MENDED}# ... the rest as it was\n"},
    ),
    "a module that tests alone import": (
        TEXT,
        {
            PRICE_PATH: f"def total(prices):\n{MENDED}",
            "shop/text.py": "def shown(price):\n    return price\n",
        },
    ),
    "a constant": (
        SHOPS["a constant of the program"],
        {PRICE_PATH: SHOPS["a constant of the program"].reference[PRICE_PATH], "shop/limits.py": "ONE = 1\n"},
    ),
    "the syntax of a helper": (
        SHOPS["a helper that the package offers"],
        {PRICE_PATH: f"def total(prices):\n{MENDED}", "shop/checks.py": "def check("},
    ),
}


@pytest.mark.parametrize("what", BREAKING)
def test_an_edit_that_mends_the_fault_and_breaks_something_else_is_0(trial: Trial, what: str) -> None:
    shop, written = BREAKING[what]
    assert values(trial, shop, written) == [0.0]
