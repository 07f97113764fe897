"""Whose each of a row's files is, and each name of its modules, read from their syntax alone."""

from __future__ import annotations

import pytest

from scorers.swe.names import identifiers, module_of, parsed
from scorers.swe.package_tests import belongs_to_tests
from scorers.swe.sides import Pins, sides_of
from tests.scorers.swe.shops import SHOPS

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", SHOPS)
def test_every_name_that_an_attack_changes_is_the_rows(name: str) -> None:
    shop = SHOPS[name]
    paths = {*shop.all_files, *shop.attack}
    is_test = {path: belongs_to_tests(path) for path in paths}
    sides = sides_of(shop.all_files, is_test, shop.reference, strict=True)
    for path, text in shop.attack.items():
        module = module_of(path, shop.all_files.get(path), text)
        if is_test[path] or path in sides.own | sides.texts or path not in shop.all_files or module is None:
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
