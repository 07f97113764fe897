"""Values as plain data, between the process that checks (T) and the one that runs the answer (C).

In: Python values. Out: the same values, rebuilt from nothing but built-in types: no class of the answer, no
overridden `__eq__` and no subclass of `int` ever reaches T. What is no data (functions, objects, iterators) travels as
a reference that `Extern` makes and resolves. Used by both processes; what C sends is never trusted: anything malformed
raises `ProtocolError`.

A value is JSON. Scalars stand for themselves; whatever JSON lacks is a list that begins with a tag; mutable containers
lie in a table beside the value and are referred to by index, which keeps sharing, cycles and deep chains. No pickle.
"""

from __future__ import annotations

from sandbox.harness.pipe import ProtocolError

if False:  # TYPE_CHECKING without importing typing: 5 ms
    from typing import Any

EXACT = 1 << 53  # integers below it are JSON numbers; larger ones are hexadecimal text
DATES = ("date", "datetime", "time", "timedelta")
BUILTIN_TYPES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        bytearray,
        list,
        tuple,
        dict,
        set,
        frozenset,
        range,
        object,
        type,
        slice,
    )
}


class Extern:
    """Makes and resolves the nodes of values that are no data; each side overrides both methods."""

    records: dict[str, type] = {}  # noqa: RUF012 - classes that both sides know: name and attributes travel

    def refer(self, value: Any) -> list[Any]:
        """Return a node for a value that is no data."""
        raise ProtocolError(f"an object of class {type(value).__name__} can't travel")

    def resolve(self, node: list[Any]) -> Any:
        """Return the value that such a node stands for."""
        raise ProtocolError(f"unknown tag {node[0]!r}")

    def filling(self, containers: list[Any]) -> Any:
        """Return a function to call once what the other side changed of these containers has been written to them."""

    def hides(self, kind: type, name: str) -> bool:
        """Return whether an attribute that the other side sends would hide what a class of this side's defines."""
        return callable(getattr(kind, name, None))


class Encoder:
    """Encodes one message's values as JSON, with their table."""

    def __init__(self, extern: Extern, known: list[Any] | None = None) -> None:
        """Take as `known` the containers that the other side already has: the first entries of the table."""
        self._extern = extern
        self.objects: list[Any] = list(known or ())
        self._index = {id(value): index for index, value in enumerate(self.objects)}

    def message(self, value: Any, received: list[Any] | None = None) -> list[Any]:
        """Return the value's node and the table, in which an entry that is as it was `received` is None."""
        root = self.node(value)
        before = received or []
        table: list[Any] = []
        while len(table) < len(self.objects):  # an entry may add others
            index = len(table)
            entry = self._contents(self.objects[index])
            table.append(None if index < len(before) and before[index] == entry else entry)
        return [root, table]

    def node(self, value: Any) -> Any:  # noqa: PLR0911 - one line a type
        """Encode one value: as a scalar, or as a list with a tag."""
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            number = int.__int__(value)
            return number if -EXACT < number < EXACT else ["i", int.__format__(number, "x")]
        if isinstance(value, float):
            real = float.__float__(value)
            return real if real - real == 0 else ["f", float.__repr__(real)]
        if isinstance(value, tuple):
            return ["t", *[self.node(item) for item in tuple.__iter__(value)]]
        if isinstance(value, (list, dict, set, bytearray)) or self._is_table_entry(value):
            return ["r", self._entry(value)]
        return self._rare(value)

    def _entry(self, value: Any) -> int:
        index = self._index.get(id(value))
        if index is None:
            index = self._index[id(value)] = len(self.objects)
            self.objects.append(value)
        return index

    def _is_table_entry(self, value: Any) -> bool:
        kind = type(value)
        return (kind.__name__ == "deque" and kind.__module__ == "collections") or (
            kind.__name__ in self._extern.records and isinstance(getattr(value, "__dict__", None), dict)
        )

    def _contents(self, value: Any) -> list[Any]:
        node = self.node
        if isinstance(value, list):
            return ["l", *[node(item) for item in list.__iter__(value)]]
        if isinstance(value, dict):
            pairs = value.items() if type(value).__name__ == "OrderedDict" else dict.items(value)
            return ["d", *[node(part) for pair in pairs for part in pair]]
        if isinstance(value, set):
            return ["s", *[node(item) for item in set.__iter__(value)]]
        if isinstance(value, bytearray):
            return ["y", bytes(value).decode("latin-1")]
        if type(value).__name__ in self._extern.records:
            return [
                "o",
                type(value).__name__,
                *[node(part) for pair in value.__dict__.items() for part in pair],
            ]
        return ["q", value.maxlen, *[node(item) for item in value]]

    def _rare(self, value: Any) -> Any:  # noqa: C901, PLR0911 - one line a type
        kind: Any = type(value)
        name, module = kind.__name__, kind.__module__
        if isinstance(value, bytes):
            return ["b", bytes(value).decode("latin-1")]
        if isinstance(value, frozenset):
            return ["z", *[self.node(item) for item in frozenset.__iter__(value)]]
        if kind is complex:
            return ["c", self.node(value.real), self.node(value.imag)]
        if kind is range:
            return ["g", *[self.node(part) for part in (value.start, value.stop, value.step)]]
        if kind is slice:
            return ["k", *[self.node(part) for part in (value.start, value.stop, value.step)]]
        if value is Ellipsis:
            return ["e"]
        if kind is type and value in BUILTIN_TYPES.values():
            return ["T", value.__name__]
        if name == "Fraction" and module == "fractions":
            return ["F", self.node(value.numerator), self.node(value.denominator)]
        if name == "Decimal" and module == "decimal":
            return ["D", str(value)]
        if module == "datetime" and name in DATES and getattr(value, "tzinfo", None) is None:
            return ["M", name, *_date_parts(name, value)]
        if module == "numpy" and hasattr(value, "tolist"):
            return self.node(value.tolist())
        return self._extern.refer(value)


def _date_parts(name: str, value: Any) -> list[int]:
    if name == "timedelta":
        return [value.days, value.seconds, value.microseconds]
    parts = [value.year, value.month, value.day] if name.startswith("date") else []
    return parts + (
        [value.hour, value.minute, value.second, value.microsecond] if name.endswith("time") else []
    )


class ValueDecoder:
    """Decodes JSON to values. Mutable containers are made empty first and filled afterwards, so that cycles close."""

    def __init__(self, extern: Extern, known: list[Any] | None = None) -> None:
        """Take as `known` this side's containers for the table's first entries: they receive what changed."""
        self._extern = extern
        self.objects: list[Any] = list(known or ())

    def message(self, root: Any, table: list[Any]) -> Any:
        """Return the value. Raises ProtocolError for anything that no Encoder writes."""
        try:
            known = len(self.objects)
            for index, entry in enumerate(table):
                if index >= known:
                    self.objects.append(self._shell(entry))
                elif entry is not None and type(self._shell(entry)) is not _family(self.objects[index]):
                    raise ProtocolError("a container came back as another type")
            filled = self._extern.filling(
                [value for value, entry in zip(self.objects[:known], table) if entry is not None]  # noqa: B905
            )
            for order in ("loyq", "ds"):  # what hashes by its contents comes last
                for value, entry in zip(self.objects, table):  # noqa: B905 - Python 3.9
                    if entry is not None and entry[0] in order:
                        self._fill(value, entry)
            if filled is not None:
                filled()
            return self.value(root)
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
            OverflowError,
            RecursionError,
            ArithmeticError,
        ) as error:
            raise ProtocolError(f"malformed data: {error!r}") from None

    def value(self, node: Any) -> Any:  # noqa: PLR0911 - one line a tag
        """Return the value of one node."""
        if type(node) is not list:
            return node
        tag = node[0]
        if tag == "r":
            return self.objects[_natural(node[1])]
        if tag == "t":
            return tuple([self.value(item) for item in node[1:]])
        if tag == "i":
            return int(node[1], 16)
        if tag == "f":
            return float(node[1])
        if tag == "b":
            return node[1].encode("latin-1")
        if tag == "z":
            return frozenset([self.value(item) for item in node[1:]])
        return self._rare(tag, node)

    def _rare(self, tag: str, node: list[Any]) -> Any:  # noqa: PLR0911 - one line a type
        if tag == "c":
            return complex(self.value(node[1]), self.value(node[2]))
        if tag in ("g", "k"):
            parts = [self.value(part) for part in node[1:]]
            return range(*parts) if tag == "g" else slice(*parts)
        if tag == "e":
            return Ellipsis
        if tag == "T":
            return BUILTIN_TYPES[node[1]]
        if tag == "F":
            from fractions import Fraction

            return Fraction(self.value(node[1]), self.value(node[2]))
        if tag == "D":
            from decimal import Decimal

            return Decimal(node[1])
        if tag == "M" and node[1] in DATES:
            import datetime  # noqa: ICN001

            return getattr(datetime, node[1])(*node[2:])
        return self._extern.resolve(node)

    def _shell(self, entry: list[Any]) -> Any:
        tag = entry[0]
        if tag == "q":
            from collections import deque

            return deque(maxlen=entry[1])
        if tag == "o":
            kind = self._extern.records[entry[1]]
            return object.__new__(kind)
        return {"l": list, "d": dict, "s": set, "y": bytearray}[tag]()

    def _fill(self, value: Any, entry: list[Any]) -> None:
        tag, items = entry[0], entry[1:]
        if tag == "l":
            value[:] = [self.value(item) for item in items]
        elif tag == "y":
            value[:] = items[0].encode("latin-1")
        elif tag == "s":
            value.clear()
            value.update([self.value(item) for item in items])
        elif tag == "q":
            value.clear()
            value.extend([self.value(item) for item in items[1:]])
        else:
            mapping, items = (value.__dict__, items[1:]) if tag == "o" else (value, items)
            parts = [self.value(item) for item in items]
            pairs = list(zip(parts[::2], parts[1::2]))  # noqa: B905 - Python 3.9
            mapping.clear()
            if tag == "o":  # an attribute must not hide what the tests' own class defines
                pairs = [(name, part) for name, part in pairs if not self._extern.hides(type(value), name)]
            mapping.update(pairs)


def _natural(index: Any) -> int:
    if type(index) is not int or index < 0:
        raise ProtocolError("no index")
    return index


def _family(value: Any) -> type:
    """Return the class of a container's shell: a subclass of a built-in class is sent as that class."""
    for kind in (list, dict, set, bytearray):
        if isinstance(value, kind):
            return kind
    return type(value)
