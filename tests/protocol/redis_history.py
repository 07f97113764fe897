"""A run's keys in a real Redis, as they are after each command, and as they were up to 60 commands ago.

In: a client. Out: a `State` that the invariants look at, and the way back: DUMP and RESTORE of every key, which bring
streams back with their groups, their pending entries and their last id, so that an entry's id may be given again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
import redis

from broker.group_ids import retried
from broker.keys import WORK_STREAMS, Keys

COMMANDS_BACK = 60

# One look at everything: the keys as they are dumped, and what of them the invariants need.
_LOOK = """
local function named(flat)
  local found = {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end
local dumps, hashes, heads, streams = {}, {}, {}, {}
for i, key in ipairs(KEYS) do
  dumps[i] = redis.call('DUMP', key) or ''
  local kind = redis.call('TYPE', key).ok
  hashes[i] = kind == 'hash' and redis.call('HGETALL', key)
  if kind == 'stream' then
    local head = {named(redis.call('XINFO', 'STREAM', key))['last-generated-id'], redis.call('XLEN', key)}
    for _, flat in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      local group = named(flat)
      head[#head + 1] = {group.name, group.consumers, group['last-delivered-id']}
      for _, held in ipairs(redis.call('XPENDING', key, group.name, '-', '+', 1000)) do
        head[#head + 1] = {held[1], held[2], held[4]}
      end
    end
    heads[i] = head
  else
    heads[i] = false
  end
end
for i = 1, 5 do
  local entries = {}
  for _, found in ipairs(redis.call('XRANGE', KEYS[i], '-', '+')) do
    local group, floor = '?', '-1'
    for j = 1, #found[2], 2 do
      if found[2][j] == 'group' then group = found[2][j + 1] end
      if found[2][j] == 'floor' then floor = found[2][j + 1] end
    end
    entries[#entries + 1] = {found[1], group, floor}
  end
  streams[i] = entries
end
local weights = {}
for _, found in ipairs(redis.call('XREVRANGE', KEYS[10], '+', '-', 'COUNT', 1)) do weights = found[2] end
return cmsgpack.pack({dumps, hashes, heads, streams, redis.call('ZRANGE', KEYS[6], 0, -1, 'WITHSCORES'),
                      redis.call('HGETALL', KEYS[7]), redis.call('HGETALL', KEYS[8]),
                      redis.call('HMGET', KEYS[9], 'fence', 'version'), weights})
"""

_RESTORE = """
for i, key in ipairs(KEYS) do
  redis.call('DEL', key)
  if ARGV[i] ~= '' then redis.call('RESTORE', key, 0, ARGV[i]) end
end
"""


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of a work stream: its id, and what its header says."""

    entry_id: str
    group_id: str
    floor: int


@dataclass(frozen=True, slots=True, eq=False)
class State:
    dumps: tuple[bytes, ...]  # what brings it back
    contents: tuple[Any, ...]  # to compare: a read may change a hash's dump, and time does a stream's
    streams: dict[str, list[Place]]
    slots: dict[str, int]  # id -> floor
    where: dict[str, str]  # id -> STREAM ENTRY
    cursor: dict[str, str]
    fence: int
    version: int  # the newest announced; -1 before the first
    weights: dict[str, str]  # the last announcement

    @property
    def position(self) -> int:
        return int(self.cursor.get("position", 0))

    def issued(self) -> set[str]:
        """Ids that `cursor` names: ordinals, and the retries of dead groups."""
        ids = {*map(str, range(self.position))}
        for field, last in self.cursor.items():
            if field.startswith("retry:"):
                ids |= {retried(field.partition(":")[2], number + 1) for number in range(int(last))}
        return ids

    def protocol(self) -> tuple[Any, ...]:
        """Return all that the protocol's scripts change, to see that nothing changed."""
        return self.streams, self.slots, self.where, self.cursor, self.version, self.weights

    def entries(self) -> Iterator[tuple[str, Place]]:
        for stream, places in self.streams.items():
            for place in places:
                yield stream, place


class History:
    """What the run's keys were after each command that changed them, the newest last."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client: Any = client
        self._keys = keys.scripts()
        self._look = client.register_script(_LOOK)
        self._restore = client.register_script(_RESTORE)
        self._states: deque[State] = deque(maxlen=COMMANDS_BACK + 1)
        self._length = 0
        self.look()

    @property
    def now(self) -> State:
        return self._states[-1]

    def __len__(self) -> int:
        """Commands since the beginning that changed something, less those that were undone."""
        return self._length

    def look(self) -> bool:
        reply = self._look(keys=self._keys, args=[])
        found = msgpack.unpackb(reply, raw=True)
        dumps, hashes, heads, streams, slots, where, cursor, (fence, version), weights = found
        each = zip(dumps, hashes, heads, strict=True)
        compared = (head or (sorted(_pairs(fields)) if fields else dump) for dump, fields, head in each)
        contents = (streams, *compared)
        if self._states and self.now.contents == contents:
            return False
        self._length += 1
        self._states.append(
            State(
                dumps=tuple(dumps),
                contents=contents,
                slots={group.decode(): int(floor) for group, floor in _pairs(slots)},
                streams={
                    stream: [
                        Place(entry.decode(), group.decode(), int(floor)) for entry, group, floor in found
                    ]
                    for stream, found in zip(WORK_STREAMS, streams, strict=True)
                },
                where=_text(where),
                cursor=_text(cursor),
                weights=_text(weights),
                fence=int(fence or 0),
                version=int(-1 if version in {None, False} else version),
            )
        )
        return True

    def join(self, since: int) -> None:
        """What was seen since the history had this length counts as one command: nothing goes back into its middle."""
        while self._length > since + 1 and len(self._states) > 1:
            last = self._states.pop()
            self._states[-1] = last
            self._length -= 1

    def go_back(self, commands: int) -> bool:
        """Undo the last so many commands that changed something. Returns whether there were any."""
        steps = min(commands, len(self._states) - 1)
        for _ in range(steps):
            self._states.pop()
            self._length -= 1
        if steps:
            self._restore(keys=self._keys, args=list(self.now.dumps))
        return steps > 0

    def forget_all(self) -> None:
        """An empty Redis takes the place of this one."""
        self._client.delete(*self._keys)
        self.look()

    def begin_at(self, entry_id: str) -> None:
        """Give entries ids from `entry_id` on, whatever the clock says: an id that is undone is given again."""
        for stream in self._keys[:4]:
            self._client.xadd(stream, {"v": "0"}, id=entry_id)
            self._client.xdel(stream, entry_id)
        self.look()


def _pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _text(flat: list[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in _pairs(flat)}
