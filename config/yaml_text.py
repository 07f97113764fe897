"""Read every YAML text within limits that no real configuration reaches.

In: a text and the name of its source. Out: its lists, dicts and single values, or its nodes with their line numbers.
Used by every entry point that reads a file, an argument or a variable of a user, and by code that reads a run's own
files. A text that is too long, too deeply nested, too large with its aliases expanded, or refers to itself, a key that
is written twice, and a value that is invalid for its tag: each is a `ConfigError` that names the place. Nothing is
evaluated, and no alias is followed before its expanded size is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from config.explanations import ConfigError

MOST_BYTES: Final = 1 << 20  # of a text; a run with all keys has 10 KiB
MOST_NODES: Final = 20_000  # of keys, values, lists and sections, with every alias expanded
MOST_DEPTH: Final = 64  # of nested lists and sections
MOST_DIGITS: Final = 1000  # of a whole number: Python prints 4,300, whatever base it was written in
EARLIER: Final = "the configuration of an earlier start"  # name of the source of a ledger's text
_MERGE: Final = "tag:yaml.org,2002:merge"
_INT: Final = "tag:yaml.org,2002:int"


class NotYaml(ConfigError):
    """A text is not YAML, or has a value that is invalid for its tag."""


class _Loader(yaml.SafeLoader):
    """YAML loader with limits that refuses duplicate keys: PyYAML would silently drop the first value."""

    def __init__(self, text: str | bytes, where: str) -> None:
        super().__init__(text)
        self.name = where  # for messages
        self._depth = self._count = 0
        self._extents: dict[int, tuple[int, int]] = {}  # number of nodes in each complete node, and depth

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node, after checking the limits."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        self._depth += 1
        self._count += 1
        self._bound(event, self._count, self._depth)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and id(node) not in self._extents:
            if isinstance(event, yaml.AliasEvent):
                raise ConfigError(f"{_place(event)}: *{event.anchor} stands within itself")
            inner = [self._extents[id(child)] for child in _children(node)]
            size = 1 + sum(count for count, _ in inner)
            depth = 1 + max((depth for _, depth in inner), default=0)
            self._bound(event, size, depth)
            self._extents[id(node)] = (size, depth)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return a node's value. Raises NotYaml if the value is invalid for its tag."""
        if node.tag == _INT and isinstance(node.value, str) and len(node.value) > MOST_DIGITS:
            raise ConfigError(f"{_place(node)}: a whole number of {len(node.value)} characters")
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep=deep)
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
            tag = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value:.60} is no {tag}: {error}", node.start_mark
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a section; refuse duplicate keys."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise ConfigError(f"{_place(key_node)}: {key!r} can't be a key")
            if key in seen:
                raise ConfigError(f"{_place(key_node)}: {key!r} is written twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def _bound(self, event: yaml.Event, size: int, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise ConfigError(f"{_place(event)}: lists and sections in one another, deeper than {MOST_DEPTH}")
        if size > MOST_NODES:
            raise ConfigError(f"{_place(event)}: more than {MOST_NODES} keys and values, aliases written out")


def read_yaml_file(path: Path) -> bytes:
    """Return a file's bytes. Raises ConfigError if it does not exist or is larger than a YAML text may be."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)  # with one byte more, the text is found to be too long
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def read_yaml_text(text: str | bytes, where: str) -> Any:
    """Return the content of a text; None for an empty one.

    Raises:
        NotYaml: the text is not YAML.
        ConfigError: it exceeds the limits, or has a key twice.
    """
    with yaml_nodes(text, where) as (loader, node):
        return None if node is None else loader.construct_document(node)


@contextmanager
def yaml_nodes(text: str | bytes, where: str) -> Iterator[tuple[yaml.SafeLoader, yaml.Node | None]]:
    """Yield the text's first node, None for an empty text, and the loader that constructs the values of nodes.

    Raises:
        NotYaml, ConfigError: as `read_yaml_text`, also for errors of the loader within the block.
    """
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{where}: longer than {MOST_BYTES >> 20} MiB")
    loader = None
    try:
        loader = _Loader(text, where)
        yield loader, loader.get_single_node()
    except yaml.YAMLError as error:
        raise NotYaml(f"{where}: not YAML: {error}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _place(where: yaml.Node | yaml.Event) -> str:
    mark = where.start_mark
    return "a text" if mark is None else f"{mark.name}:{mark.line + 1}"
