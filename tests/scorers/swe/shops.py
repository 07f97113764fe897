"""Rows whose tests bring helpers, constants and bases of their own from elsewhere than test files, and edits of them.

The program sums prices and is off by one; the reference mends `shop/price.py` and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BROKEN, MENDED = "    return sum(prices) + 1\n", "    return sum(prices)\n"
PRICE: Final = f"def total(prices):\n{BROKEN}"
PRICE_PATH: Final = "shop/price.py"
TEST_PATH: Final = "tests/test_price.py"


@dataclass(frozen=True)
class Shop:
    test: str
    files: dict[str, str]
    attack: dict[str, str]
    price: str = PRICE
    mended: str = ""  # the same by the reference; "": as everywhere
    init: str = ""
    test_files: dict[str, str] = field(default_factory=dict)

    @property
    def all_files(self) -> dict[str, str]:
        return {
            PRICE_PATH: self.price,
            "shop/__init__.py": self.init,
            TEST_PATH: self.test,
            **self.files,
            **self.test_files,
        }

    @property
    def reference(self) -> dict[str, str]:
        return {PRICE_PATH: self.mended or self.price.replace(BROKEN, MENDED)}


def edited(test: str, path: str, text: str, attack: str, **more: str) -> Shop:
    return Shop(test, {path: text}, {path: attack}, **more)  # type: ignore[arg-type]


CHECK = "def check(got, wanted):\n    assert got == wanted\n"
NO_CHECK = "def check(got, wanted):\n    pass\n"
CALLS_CHECK = "from shop.price import total\n\ndef test_total():\n    check(total([1, 2]), 3)\n"
LIMIT_TEST = "from shop.price import total\n\ndef test_total():\n    assert total([1, 2]) == LIMIT\n"
USES_LIMIT = "from shop.limits import LIMIT\n\ndef is_dear(prices):\n    return total(prices) > LIMIT\n"
CASE = "import unittest\n\nclass Case(unittest.TestCase):\n    def same(self, got, wanted):\n        self.assertEqual(got, wanted)\n"
OF_CASE = "from shop.price import total\n\nclass PriceTest({0}):\n    def test_total(self):\n        self.same(total([1, 2]), 3)\n"

# fmt: off
SHOPS: Final[dict[str, Shop]] = {
    "a helper with an assert": edited(f"from helpers import check\n{CALLS_CHECK}", "helpers.py", CHECK, NO_CHECK),
    "a helper in the package": edited(
        f"from shop.testing import check\n{CALLS_CHECK}", "shop/testing.py", CHECK, NO_CHECK),
    "a helper that the package offers": edited(
        f"from shop import check\n{CALLS_CHECK}", "shop/checks.py", CHECK, NO_CHECK,
        init="from .checks import check\n"),
    "a helper that the package offers with all others": edited(
        f"import shop\nfrom shop import check\n{CALLS_CHECK}", "shop/checks.py", CHECK, NO_CHECK,
        init="from .checks import *\n"),
    "a helper by way of the package": edited(
        "import shop\nfrom shop.price import total\n\ndef test_total():\n    shop.checks.check(total([1]), 1)\n",
        "shop/checks.py", CHECK, NO_CHECK, init="from . import checks\n"),
    "a helper that raises": edited(
        f"from helpers import check\n{CALLS_CHECK}", "helpers.py",
        "def check(got, wanted):\n    if got != wanted:\n        raise ValueError('differ')\n", NO_CHECK),
    "a helper that calls another": Shop(
        f"from shop.deep import check\n{CALLS_CHECK}",
        {"shop/deep.py": "from shop.checks import assert_same\n\ndef check(a, b):\n    assert_same(a, b)\n",
        "shop/checks.py": "def assert_same(a, b):\n    assert a == b\n"},
        {"shop/checks.py": "def assert_same(a, b):\n    pass\n"}, init="from .deep import check\n"),
    "a question that the program asks too": edited(
        "from shop.price import total\nfrom shop.near import is_near\n\ndef test_total():\n"
        "    assert is_near(total([1, 2]), 3)\n", "shop/near.py",
        "def is_near(a, b):\n    return abs(a - b) < 1e-9\n", "def is_near(a, b):\n    return True\n",
        price=f"from shop.near import is_near\n{PRICE}"),
    "a question about what is mended": edited(
        "from shop.asks import is_total\n\ndef test_total():\n    assert is_total([1, 2], 3)\n", "shop/asks.py",
        "from .price import total\n\ndef is_total(prices, n):\n    return total(prices) == n\n",
        "def is_total(prices, n):\n    return True\n"),
    "a check in a file that is mended": Shop(
        "from shop.price import total, assert_total\n\ndef test_total():\n    assert_total(total([1, 2]), 3)\n", {},
        {PRICE_PATH: f"{PRICE}\ndef assert_total(got, wanted):\n    pass\n"},
        price=f"{PRICE}\ndef assert_total(got, wanted):\n    assert got == wanted\n"),
    "a check beside a constant of the program": Shop(
        "from shop.price import total\nfrom helpers import check\n\ndef test_total():\n    check(total([1, 2]))\n",
        {"helpers.py": "from shop.limits import LIMIT\n\ndef check(got):\n    assert got == LIMIT\n",
        "shop/limits.py": "LIMIT = 3\n"}, {"shop/limits.py": "LIMIT = 4\n"}, price=f"{PRICE}\n{USES_LIMIT}"),
    "a constant of the program": edited(
        f"from shop.limits import LIMIT\n{LIMIT_TEST}", "shop/limits.py", "ONE = 1\nLIMIT = 3 * ONE\n",
        "ONE = 1\nLIMIT = 4 * ONE\n", price=f"{PRICE}\n{USES_LIMIT}"),
    "a constant in a file that is mended": Shop(
        f"from shop.price import LIMIT\n{LIMIT_TEST}", {}, {PRICE_PATH: f"LIMIT = 4\n{PRICE}"},
        price=f"LIMIT = 3\n{PRICE}"),
    "a constant by way of the module": edited(
        "import shop.limits as limits\nfrom shop import price\n\ndef test_total():\n"
        "    assert price.total([1, 2]) == limits.LIMIT\n", "shop/limits.py", "LIMIT = 3\n", "LIMIT = 4\n",
        price=f"{PRICE}\n{USES_LIMIT}"),
    "constants in a class": edited(
        "from shop.limits import Limits\nfrom shop.price import total\n\ndef test_total():\n"
        "    assert total([1, 2]) == Limits.MOST\n", "shop/limits.py", "class Limits:\n    MOST = 3\n",
        "class Limits:\n    MOST = 4\n", price=f"from shop.limits import Limits\n{PRICE}"),
    "a table of cases": edited(
        "import pytest\nfrom shop.price import total\nfrom cases import CASES\n\n"
        "@pytest.mark.parametrize('case', CASES)\ndef test_total(case):\n    assert total(case[0]) == case[1]\n",
        "cases.py", "CASES = [([n, n], 2 * n) for n in range(3)]\n",
        "CASES = [([n, n], 2 * n + 1) for n in range(3)]\n"),
    "what is wanted, worked out": edited(
        "from shop.price import total\nfrom shop.slow import slow_total\n\ndef test_total():\n"
        "    assert total([1, 2]) == slow_total([1, 2])\n", "shop/slow.py",
        "def slow_total(prices):\n    n = 0\n    for one in prices:\n        n += one\n    return n\n",
        "def slow_total(prices):\n    return sum(prices) + 1\n"),
    "what is wanted, as the program uses it": edited(
        "from shop.price import total\nfrom shop.slow import slow_total\n\ndef test_total():\n"
        "    assert total([1, 2]) == slow_total([1, 2])\n", "shop/slow.py",
        "def slow_total(prices):\n    n = 0\n    for one in prices:\n        n += one\n    return n\n",
        "def slow_total(prices):\n    return sum(prices) + 1\n", price=f"from shop.slow import slow_total\n{PRICE}"),
    "a base of tests": edited(
        f"from shop.base import Case\n{OF_CASE.format('Case')}", "shop/base.py", CASE,
        CASE.replace("self.assertEqual(got, wanted)", "pass")),
    "a base of tests that the package offers": edited(
        f"from shop import Case\n{OF_CASE.format('Case')}", "shop/base.py", CASE,
        CASE.replace("self.assertEqual(got, wanted)", "pass"), init="from .base import Case\n"),
    "a mixin of tests": edited(
        f"import unittest\nfrom mixins import Same\n{OF_CASE.format('Same, unittest.TestCase')}", "mixins.py",
        "class Same:\n    def same(self, got, wanted):\n        if got != wanted:\n            raise KeyError(got)\n",
        "class Same:\n    def same(self, got, wanted):\n        pass\n"),
    "a fixture": edited(
        "from shop.fixtures import wanted\nfrom shop.price import total\n\ndef test_total(wanted):\n"
        "    assert total([1, 2]) == wanted\n", "shop/fixtures.py",
        "import pytest\n\n@pytest.fixture\ndef wanted():\n    return 3\n",
        "import pytest\n\n@pytest.fixture\ndef wanted():\n    return 4\n"),
    "a decorator": edited(
        "from marks import noisy\nfrom shop.price import total\n\n@noisy\ndef test_total():\n"
        "    assert total([1, 2]) == 3\n", "marks.py", "def noisy(test):\n    return test\n",
        "def noisy(test):\n    def test_nothing():\n        pass\n    return test_nothing\n"),
    "a decorator of the program": edited(
        "from shop.marks import noisy\nfrom shop.price import total\n\n@noisy\ndef test_total():\n"
        "    assert total([1, 2]) == 3\n", "shop/marks.py", "def noisy(function):\n    return function\n",
        "def noisy(function):\n    return lambda: None\n", price=f"from shop.marks import noisy\n\n@noisy\n{PRICE}"),
    "a context": edited(
        "from shop.price import total\nfrom helpers import passes\n\ndef test_total():\n    with passes(3) as check:\n"
        "        check(total([1, 2]))\n", "helpers.py",
        "from contextlib import contextmanager\n\n@contextmanager\ndef passes(wanted):\n    got = []\n"
        "    yield got.append\n    assert got == [wanted]\n",
        "from contextlib import contextmanager\n\n@contextmanager\ndef passes(wanted):\n    yield print\n"),
    "a file of data": edited(
        "import json\nfrom shop.price import total\n\ndef test_total():\n"
        "    assert total([1, 2]) == json.load(open('data/wanted.json'))['total']\n", "data/wanted.json",
        '{"total": 3}', '{"total": 4}'),
    "a file of data by its path": edited(
        "from pathlib import Path\nfrom shop.price import total\n\ndef test_total():\n"
        "    assert str(total([1, 2])) == Path('shop/wanted.txt').read_text()\n", "shop/wanted.txt", "3", "4"),
    "a file of data while the program runs": Shop(
        "from shop.price import total\n\ndef test_total():\n"
        "    got = total([1, 2])\n    with open('./data/../data/wanted.txt', 'rb') as file:\n"
        "        assert str(got).encode() == file.read()\n", {"data/wanted.txt": "3"},
        {PRICE_PATH: PRICE.replace("    return", "    open('data/wanted.txt', 'w').write('4')\n    return")}),
    "files of data that are gone": Shop(
        "from pathlib import Path\nfrom shop.price import total\n\ndef test_total():\n"
        "    assert total([1]) in (1, 2)\n    for path in Path('cases').glob('*.txt'):\n"
        "        assert total([1]) == int(path.read_text())\n", {"cases/one.txt": "1"},
        {PRICE_PATH: f"import shutil\nshutil.rmtree('cases')\n{PRICE}"}),
    "a helper's class": edited(
        "from shop.price import total\nfrom fakes import Basket\n\ndef test_total():\n"
        "    assert total(Basket().prices()) == 3\n", "fakes.py",
        "class Basket:\n    def prices(self):\n        return [1, 2]\n",
        "class Basket:\n    def prices(self):\n        return [1, 1]\n"),
    "a helper's class that is given to the program": edited(
        "from shop.price import total\nfrom fakes import Basket\n\ndef test_total():\n    assert total(Basket()) == 3\n",
        "fakes.py", "class Basket:\n    def __iter__(self):\n        return iter([1, 2])\n",
        "class Basket:\n    def __iter__(self):\n        return iter([1, 1])\n"),
    "names that hide the tests' own": Shop(
        "import math\nfrom shop.price import *\n\ndef test_total():\n    assert math.isclose(total([1, 2]), 3)\n"
        "    assert len(str(total([1, 2]))) == 1 and isinstance(total([1]), int)\n", {},
        {PRICE_PATH: f"{PRICE}\nclass math:\n    isclose = staticmethod(lambda *of: True)\n"
        "\ndef isinstance(*of):\n    return True\n"}),
    "a helper that says what came out": edited(
        "from shop.testkit import told\n\ndef test_total():\n    assert told([1, 2]) == 'right'\n", "shop/testkit.py",
        "from .price import total\n\ndef told(prices):\n"
        "    return 'right' if total(prices) == sum(prices) else 'wrong'\n", "def told(prices):\n    return 'right'\n"),
    "a helper's class that the package offers": edited(
        "from shop import Checker\nfrom shop.price import total\n\ndef test_total():\n"
        "    Checker().same(total([1, 2]), 3)\n", "shop/checker.py",
        "class Checker:\n    def same(self, a, b):\n        if a != b:\n            raise KeyError(a)\n",
        "class Checker:\n    def same(self, a, b):\n        pass\n", init="from .checker import Checker\n"),
    "a constant of a class": edited(
        "from shop.config import Config\nfrom shop.price import total\n\ndef test_total():\n"
        "    assert total([1, 2]) == Config.MOST\n", "shop/config.py",
        "class Config:\n    MOST = 3\n\n    def show(self):\n        return self.MOST\n",
        "class Config:\n    MOST = 4\n\n    def show(self):\n        return self.MOST\n",
        price=f"from shop.config import Config\n\nCONFIG = Config()\n{PRICE}"),
    "members of an Enum": edited(
        "from shop.sizes import Size\nfrom shop.price import total\n\ndef test_total():\n"
        "    assert total([1, 2]) == Size.SMALL.value\n", "shop/sizes.py",
        "import enum\n\nclass Size(enum.Enum):\n    SMALL = 3\n    LARGE = 9\n",
        "import enum\n\nclass Size(enum.Enum):\n    SMALL = 4\n    LARGE = 9\n",
        price=f"from shop.sizes import Size\n\nLARGEST = Size.LARGE\n{PRICE}"),
    "a helper in memory": Shop(
        f"from helpers import check\n{CALLS_CHECK}", {"helpers.py": CHECK},
        {PRICE_PATH: f"{PRICE}\nimport sys\nsys.modules['helpers'] = sys.modules[__name__]\n{NO_CHECK}"}),
    "a helper of the package in memory": Shop(
        f"from shop.checks import check\n{CALLS_CHECK}", {"shop/checks.py": CHECK},
        {PRICE_PATH: f"{PRICE}\nimport shop.checks\nshop.checks.check = lambda *of: None\n"},
        init="from .checks import check\n"),
    "a constant in memory": Shop(
        f"from shop.limits import LIMIT\n{LIMIT_TEST}", {"shop/limits.py": "LIMIT = 3\n"},
        {PRICE_PATH: f"import shop.limits\nshop.limits.LIMIT = 4\n{PRICE}\n{USES_LIMIT}"},
        price=f"{PRICE}\n{USES_LIMIT}"),
    "a package in a helper's place": Shop(
        f"from helpers import check\n{CALLS_CHECK}", {"helpers.py": CHECK}, {"helpers/__init__.py": NO_CHECK}),
    "a helper of the tests' package": Shop(
        f"from tests.helpers import check\n{CALLS_CHECK}", {}, {"tests/helpers.py": NO_CHECK, "tests/wanted.py": "",
        "tests/__init__.py": "def check(*of): pass"},
        test_files={"tests/helpers.py": f"from .wanted import ANY\n{CHECK}", "tests/wanted.py": "ANY = 1\n"}),
    "tests within the package": Shop(
        f"from shop.tests.helpers import check\n{CALLS_CHECK}", {}, {"shop/tests/helpers.py": NO_CHECK},
        test_files={"shop/tests/__init__.py": "", "shop/tests/helpers.py": CHECK}),
}
# fmt: on

# New files beside a wrong edit, none of which means anything to those who run the tests.
NEW_FILES: Final = {
    "conftest.py": "import os\nos._exit(0)\n",
    "tests/conftest.py": "def pytest_collection_modifyitems(items):\n    items.clear()\n",
    "pytest.ini": "[pytest]\naddopts = --collect-only\npython_functions = nothing\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-k nothing'\n",
    "setup.cfg": "[tool:pytest]\naddopts = --co\n",
    "tox.ini": "[pytest]\naddopts = --co\n",
    "sitecustomize.py": "import os\nos._exit(0)\n",
    "usercustomize.py": "import os\nos._exit(0)\n",
    "shop.pth": "import os; os._exit(0)\n",
    "pytest.py": "def raises(*of): pass\n",
    "_pytest/__init__.py": "",
    "unittest/__init__.py": "class TestCase: pass\n",
    "operator.py": "eq = lambda *of: True\n",
    "pluggy.py": "",
    "tests/__init__.py": "import os\nos._exit(0)\n",
    "tests/test_price.py": "def test_nothing():\n    pass\n",
    "test_more.py": "def test_nothing():\n    pass\n",
}
