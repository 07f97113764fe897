"""What decides a test is the row's, wherever it stands; what is mended elsewhere than in the reference still counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest

from config.scorers import ScorersConfig
from scorers.swe.names import identifiers, module_of, parsed
from scorers.swe.rows import read_row
from scorers.swe.sides import Pins, sides_of
from scorers.swe.trial import Trial
from tests.scorers.swe.shops import MENDED, NEW_FILES, PRICE, PRICE_PATH, SHOPS, TEST_PATH, USES_LIMIT, Shop
from tests.scorers.swe.texts import edits
from verdicts.repository import belongs_to_tests

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with closing(Trial(ScorersConfig())) as running:
        yield running


def values(trial: Trial, shop: Shop, *written: Mapping[str, str]) -> list[float | None]:
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
    test = "from shop.price import total\n\ndef test_total():\n    assert operator.eq(total([1]), 1)\n"
    shop = Shop(f"import operator\n{test}", {}, {})
    assert values(trial, shop, NEW_FILES, {**NEW_FILES, **shop.reference}) == [0.0, 1.0]


TOTAL_TEST = "from shop.price import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
MENDED_PRICE = f"def total(prices):\n{MENDED}"
CORE = "def add(prices):\n    return sum(prices) + 1\n"
ON_CORE = "from shop.core import add\n\ndef total(prices):\n    return add(prices)\n"
MENDED_ON_CORE = ON_CORE.replace("add(prices)\n", "add(prices) - 1\n")
ADD_TEST = f"from shop.core import add\n{TOTAL_TEST}\ndef test_add():\n    assert add([]) in (0, 1)\n"
MENDED_CORE = {"shop/core.py": CORE.replace(" + 1", "")}
ON_TOTAL = "from .price import total as _total\n\ndef total(prices):\n    return _total(prices)"
EXTRA = "EXTRA = {}\n\ndef total(prices):\n    return sum(prices){}\n"
EXTRA_TEST = f"from shop.price import EXTRA\n{TOTAL_TEST}\ndef test_extra():\n    assert EXTRA == EXTRA + 0\n"
COUNT = Shop(
    f"from shop.price import count\n{TOTAL_TEST}\ndef test_count():\n    assert count([1]) == 1\n",
    {},
    {},
    price=f"{PRICE}\ndef count(prices):\n    return len(prices)\n",
)
TEXT = Shop(
    f"from shop.text import shown\n{TOTAL_TEST}\ndef test_shown():\n    assert shown(3) == '3 EUR'\n",
    {"shop/text.py": "def shown(price):\n    return f'{price} EUR'\n"},
    {},
)
NUMBERED = {
    PRICE_PATH: "from .text import number\n\ndef total(prices):\n    return sum(map(number, prices))\n",
    "shop/text.py": f"{TEXT.files['shop/text.py']}\ndef number(price):\n    return price\n",
}
ASSERTS = f"def total(prices):\n    assert prices is not None\n{MENDED}\n{USES_LIMIT}"
# fmt: off
HONEST: dict[str, tuple[Shop, dict[str, str]]] = {
    "in a module below": (
        Shop(TOTAL_TEST, {"shop/core.py": CORE}, {}, price=ON_CORE, mended=MENDED_ON_CORE), MENDED_CORE),
    "in a module below that is tested too": (
        Shop(ADD_TEST, {"shop/core.py": CORE}, {}, price=ON_CORE, mended=MENDED_ON_CORE), MENDED_CORE),
    "in the package that offers it": (
        Shop(TOTAL_TEST.replace("shop.price", "shop"), {}, {}, init="from .price import total\n"),
        {"shop/__init__.py": f"{ON_TOTAL} - 1\n"}),
    "in a module above that tests alone import": (
        Shop(TOTAL_TEST.replace("shop.price", "shop.api"), {"shop/api.py": f"{ON_TOTAL}\n"}, {}),
        {"shop/api.py": f"{ON_TOTAL} - 1\n"}),
    "in a new module": (
        Shop(TOTAL_TEST, {}, {}),
        {"shop/own.py": "def total(prices):\n    return sum(prices)\n", PRICE_PATH: "from .own import total\n"}),
    "by a constant": (
        Shop(EXTRA_TEST, {}, {}, price=EXTRA.format(1, " + EXTRA"), mended=EXTRA.format(1, "")),
        {PRICE_PATH: EXTRA.format(0, " + EXTRA")}),
    "with another function of the same file": (
        COUNT, {PRICE_PATH: f"{MENDED_PRICE}\ndef count(prices):\n    return sum(1 for _ in prices)\n"}),
    "with what another module has": (TEXT, NUMBERED),
    "with an assert of its own": (SHOPS["a constant of the program"], {PRICE_PATH: ASSERTS}),
}
# fmt: on


@pytest.mark.prove
@pytest.mark.parametrize("where", HONEST)
def test_a_fault_that_is_mended_elsewhere_than_in_the_reference_is_mended(trial: Trial, where: str) -> None:
    shop, written = HONEST[where]
    assert values(trial, shop, written) == [1.0]


CONSTANT, OFFERED = SHOPS["a constant of the program"], SHOPS["a helper that the package offers"]
# fmt: off
BREAKING: dict[str, tuple[Shop, dict[str, str]]] = {
    "a function beside": (COUNT, {PRICE_PATH: f"{MENDED_PRICE}\ndef count(prices):\n    return 7\n"}),
    "a function beside that is gone": (COUNT, {PRICE_PATH: f"{MENDED_PRICE}# ... the rest as it was\n"}),
    "a module that tests alone import": (
        TEXT, {PRICE_PATH: MENDED_PRICE, "shop/text.py": "def shown(price):\n    return price\n"}),
    "a constant": (CONSTANT, {**CONSTANT.reference, "shop/limits.py": "ONE = 1\n"}),
    "the syntax of a helper": (OFFERED, {PRICE_PATH: MENDED_PRICE, "shop/checks.py": "def check("}),
}
# fmt: on


@pytest.mark.parametrize("what", BREAKING)
def test_an_edit_that_mends_the_fault_and_breaks_something_else_is_0(trial: Trial, what: str) -> None:
    shop, written = BREAKING[what]
    assert values(trial, shop, written) == [0.0]


def test_every_name_that_an_attack_changes_is_the_rows() -> None:
    for shop in SHOPS.values():
        paths = {*shop.all_files, *shop.attack}
        is_test = {path: belongs_to_tests(path) for path in paths}
        sides = sides_of(shop.all_files, is_test, shop.reference, strict=True)
        for path, text in shop.attack.items():
            module = module_of(path, shop.all_files.get(path), text)
            if (
                is_test[path]
                or path in sides.own | sides.texts
                or path not in shop.all_files
                or module is None
            ):
                continue
            known = module_of(path, None, shop.all_files[path])
            assert known is not None
            changed = {one for one in module.changed if one in known.bindings and one != "total"}
            pins = sides.pins.get(module.name, Pins((), (), (), {}))
            assert changed & identifiers(parsed(shop.test)) <= {*pins.names, *pins.constants}, (path, pins)


def test_a_row_says_of_each_of_its_files_whose_it_is() -> None:
    for name, own in (
        ("a helper with an assert", {"helpers.py"}),
        ("a helper in the package", {"shop/testing.py"}),
        ("a helper that the package offers", set()),
        ("a table of cases", {"cases.py"}),
        ("a base of tests", {"shop/base.py"}),
        ("a constant of the program", set()),
        ("what is wanted, worked out", {"shop/slow.py"}),
        ("a question about what is mended", set()),
    ):
        shop = SHOPS[name]
        is_test = {path: path.startswith("tests/") for path in shop.all_files}
        assert sides_of(shop.all_files, is_test, shop.reference, strict=True).own == own, name
