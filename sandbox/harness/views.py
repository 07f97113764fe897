"""One view of an object of the answer that stands where the tests expect a value.

In: an object that one of the answer's functions gave. Out: its items, the same ones each time, and their number. In T.
The object may say one thing of itself here and another there, `len` 3 and no item, or other items at each look: a list
could not. So its items are asked for once, as far as the tests look, and everything else is said of these. A call of
the answer begins anew, since it may change the object. What the tests make of the answer's classes themselves is not
looked at in this way: such an object is there to behave.
"""

from __future__ import annotations

if False:
    from typing import Any

# Methods of data that say no more than yes or no: an object of the answer's would say what a check wants to hear.
VERDICTS = frozenset(
    name
    for kind in (str, bytes, set, float)
    for name in dir(kind)
    if name.startswith(("is", "startswith", "endswith"))
) | {"all", "any", "equals"}


class ObjectView:
    """The items of one object, as far as they are known."""

    def __init__(self, source: Any, epoch: int) -> None:
        """Take an iterator over them, and the number of the answer's calls so far."""
        self.epoch = epoch
        self._source = source
        self._items: list[Any] = []

    def __iter__(self) -> Any:
        """Yield the items."""
        index = 0
        while self._has(index):
            yield self._items[index]
            index += 1

    def item(self, index: int) -> Any:
        """Return an item by its number. Raises IndexError."""
        if index < 0:
            return self.whole()[index]
        if not self._has(index):
            raise IndexError("an index out of the range of what the program gave")
        return self._items[index]

    def whole(self) -> list[Any]:
        """Return all items."""
        while self._has(len(self._items)):
            pass
        return list(self._items)

    def _has(self, index: int) -> bool:
        while len(self._items) <= index:
            try:
                self._items.append(next(self._source))
            except StopIteration:
                return False
        return True
