"""What the tests passed to the answer, as it was before the answer changed it.

In: each container of the tests' that a reply from C changes. Out: `own`, a value as the tests themselves made it, and
`kept`, after which a change is the tests' own. In T. The scorer writes both into the tests (`verdicts.code.arguments`):
`own` where a check compares with what the answer was given (`order(xs) == sorted(xs)`), `kept` around a call whose
value nobody takes, which is made for its changes (`sort(xs)`). A change is seen everywhere else, as Python has it.
"""

from __future__ import annotations

if False:
    from typing import Any

OWN, KEPT = "__own__", "__kept__"  # the names that the tests call them by


class OwnArguments:
    """The containers of the tests that the answer has changed."""

    def __init__(self, records: Any) -> None:
        """Take a function that says whether a value is an object of a class of the tests', known by its attributes."""
        self._is_record = records
        # id -> the container, its contents before the answer, and after it; kept, so that an id stays a container's
        self._changed: dict[int, tuple[Any, list[Any], list[Any]]] = {}
        self._last: list[int] = []  # ids that the last call changed
        # id -> a value, what it had in it, and its copy: a loop over a grid asks for the grid again and again
        self._copies: dict[int, tuple[Any, list[Any], Any]] = {}

    def called(self) -> None:
        """Note that a call begins."""
        self._last = []

    def before(self, container: Any) -> list[Any]:
        """Return what a container has in it, for `after`."""
        return self._contents(container)

    def after(self, container: Any, before: list[Any]) -> None:
        """Note that C has changed a container."""
        known = self._changed.get(id(container))
        if known is not None and _is_same(known[2], before):
            before = known[1]
        self._changed[id(container)] = container, before, self._contents(container)
        self._last.append(id(container))
        self._copies.clear()

    def kept(self, value: Any) -> Any:
        """Return the value of a call, whose changes are the tests' own from here on."""
        for number in self._last:
            self._changed.pop(number, None)
        self.called()
        self._copies.clear()
        return value

    def own(self, value: Any) -> Any:
        """Return a value as the tests made it: itself, or a copy where the answer has changed it or something in it."""
        if not self._changed or not self._is_container(value):
            return value
        found, contents = self._copies.get(id(value)), self._contents(value)
        if found is None or not _is_same(found[1], contents):
            found = self._copies[id(value)] = value, contents, self._copied(value)
        return found[2]

    def _copied(self, value: Any) -> Any:
        reached: dict[int, tuple[Any, list[Any]]] = {}
        waiting, is_changed = [value], False
        while waiting:  # no recursion: a chain may be longer than Python's stack
            one = waiting.pop()
            if id(one) in reached or not self._is_container(one):
                continue
            contents = self._contents(one)
            known = self._changed.get(id(one))
            if known is not None and _is_same(known[2], contents):  # else the tests have written to it since
                contents, is_changed = known[1], True
            reached[id(one)] = one, contents
            waiting += contents
        if not is_changed:
            self._remember(reached, {number: one for number, (one, _) in reached.items()})
            return value
        copies: dict[int, Any] = {number: _shell(one) for number, (one, _) in reached.items()}
        kept = copies[id(value)] if not isinstance(value, (tuple, frozenset)) else None
        for number, (one, contents) in reached.items():
            if not isinstance(one, (tuple, frozenset)):
                _fill(copies[number], [_copy_of(part, copies, reached) for part in contents])
        self._remember(reached, copies)
        return kept if kept is not None else _copy_of(value, copies, reached)

    def _remember(self, reached: dict[int, tuple[Any, list[Any]]], copies: dict[int, Any]) -> None:
        """Keep the copies of all objects that were reached: a test that walks along a chain asks for each of them."""
        for number, (one, _) in reached.items():
            if self._is_record(one):
                self._copies[number] = one, self._contents(one), copies[number]

    def _is_container(self, value: Any) -> bool:
        return (
            isinstance(value, (list, dict, set, bytearray, tuple, frozenset))
            or type(value).__name__ == "deque"
            or self._is_record(value)
        )

    def _contents(self, value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [part for pair in dict.items(value) for part in pair]
        if isinstance(value, (list, tuple, set, frozenset, bytearray)) or type(value).__name__ == "deque":
            return list(value)
        return [part for pair in value.__dict__.items() for part in pair]


def _is_same(one: list[Any], other: list[Any]) -> bool:
    """Return whether two lists have the very same parts."""
    return len(one) == len(other) and all(map(_is, one, other))


def _is(one: Any, other: Any) -> bool:
    return one is other


def _shell(value: Any) -> Any:
    """Return a container of the same kind, to be filled; what can't be filled is its own."""
    if isinstance(value, (tuple, frozenset)):
        return value
    if isinstance(value, (list, dict, set, bytearray)) or type(value).__name__ == "deque":
        return value.copy()
    return object.__new__(type(value))


def _fill(shell: Any, parts: list[Any]) -> None:
    if isinstance(shell, dict):
        shell.clear()
        shell.update(zip(parts[::2], parts[1::2]))  # noqa: B905 - Python 3.9
    elif isinstance(shell, set):
        shell.clear()
        shell.update(parts)
    elif isinstance(shell, (list, bytearray)):
        shell[:] = parts
    elif type(shell).__name__ == "deque":
        shell.clear()
        shell.extend(parts)
    else:
        shell.__dict__.update(zip(parts[::2], parts[1::2]))  # noqa: B905 - Python 3.9


def _copy_of(part: Any, copies: dict[int, Any], reached: dict[int, tuple[Any, list[Any]]]) -> Any:
    """Return a part's copy; tuples hold each other without cycles of their own, so they are made anew by recursion."""
    if id(part) not in reached:
        return part
    if isinstance(part, (tuple, frozenset)):
        inner = [_copy_of(one, copies, reached) for one in reached[id(part)][1]]
        if _is_same(inner, reached[id(part)][1]):
            return part
        return part._make(inner) if hasattr(part, "_make") else type(part)(inner)
    return copies[id(part)]
