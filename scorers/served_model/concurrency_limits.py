"""The limits of an endpoint: the calls under way at once, and the calls that begin in a minute, by all of its clients.

In: calls that have ended and calls that want to begin. Out: which of these may. `scorers.served_model.admission` asks,
for all calls of its process together. `RunConcurrencyLimits` counts in Redis, for all workers of a run, by one script
on Redis' own clock. `ProcessConcurrencyLimits` counts in this process, where there is no run. A call is leased for
longer than it can last: a killed worker's calls come back, and a living worker's call is never given to another one,
however long Redis is away. Only a Redis that forgets its last second forgets the calls that began in it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from broker.connection import RedisLink
from broker.keys import Keys

# KEYS: the calls under way, a sorted set (call -> end of its lease, ms); the time at which the next call is due, us;
# the processes that want more than they have, a sorted set (process -> when that is no longer believed, ms); that of
# them which has wanted it for longest.
# ARGV: most at once, us from one call to the next (0: any number), a lease in ms, who asks, how many it has under way,
# how many have ended, those, and then those that want to begin, in order. Returns the us until another one may begin
# (0: when one ends) and those that may.
#
# While several want more, each may have its share, and the one that has wanted it for longest twice that. Equal ones
# would begin their jobs together and end them together, and the endpoint would have nothing to do in between; so one
# has its job in the middle while another is between two. A call may begin half an interval before it is due, so that a
# late one does not make all that follow late: in no minute do more begin than the limit and one, nor do more arrive as
# long as none takes half an interval longer than another. A call that is there already was begun before, and the reply
# was lost. It opens with a write that needs no room, which is never refused.
_EXCHANGE: Final = """
local clock = redis.call('TIME')
local now, interval = clock[1] * 1000000 + clock[2], tonumber(ARGV[2])
local most, who, held, first = tonumber(ARGV[1]), ARGV[4], tonumber(ARGV[5]), 7 + ARGV[6]
for _, key in ipairs({KEYS[1], KEYS[3]}) do redis.call('ZREMRANGEBYSCORE', key, '-inf', now / 1000) end
for i = 7, first - 1 do redis.call('ZREM', KEYS[1], ARGV[i]) end
redis.call('ZREM', KEYS[3], who)
local longest = redis.call('GET', KEYS[4])
local others = redis.call('ZCARD', KEYS[3])
local share = others == 0 and most or math.ceil((longest == who and 2 or 1) * most / (others + 2))
local free = math.min(most - redis.call('ZCARD', KEYS[1]), share - held)
local due = math.min(tonumber(redis.call('GET', KEYS[2]) or '0'), now + 2 * interval)   -- a clock may have gone back
local reply, wants_more = {0}, false
for i = first, #ARGV do
  if not redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    if free <= 0 then
      wants_more = true
      break
    end
    if due - now > interval / 2 then
      reply[1] = math.ceil(due - now - interval / 2)
      break
    end
    free, due = free - 1, math.max(due, now) + interval
    redis.call('ZADD', KEYS[1], now / 1000 + ARGV[3], ARGV[i])
  end
  reply[#reply + 1] = ARGV[i]
end
if wants_more then
  redis.call('ZADD', KEYS[3], now / 1000 + 500, who)
  redis.call('PEXPIRE', KEYS[3], 500)
  if not longest or longest == who then redis.call('SET', KEYS[4], who, 'PX', 500) end
elseif longest == who then
  redis.call('DEL', KEYS[4])
end
if #reply > 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  if interval > 0 then redis.call('SET', KEYS[2], string.format('%.0f', due), 'PX', 60000 + ARGV[3]) end
end
return reply
"""


@dataclass(frozen=True, slots=True)
class Shared:
    """The run whose workers share an endpoint: its limits, and what it has said."""

    link: RedisLink
    keys: Keys


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one endpoint say how much it may be asked."""

    urls: tuple[str, ...]  # who has the same ones shares the limits
    concurrency: int  # calls at once
    requests_per_minute: int | None  # None: any number
    lease_s: float  # longer than a call can last

    @property
    def interval_s(self) -> float:
        """Seconds from one call to the next; 0: any number may begin at once."""
        return 60 / self.requests_per_minute if self.requests_per_minute else 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What a process wants for all its calls; each has a name of its own."""

    who: str  # asks
    held: int  # its calls under way, without those that have ended
    ended: Sequence[str]
    wanted: Sequence[str]


@dataclass(frozen=True, slots=True)
class Grant:
    """Which calls may begin."""

    begun: Sequence[str]  # the first ones of those that were asked for
    wait_s: float  # until another one may; 0: when one ends


class ConcurrencyLimits(Protocol):
    """A counter of an endpoint's calls. Any thread may use it."""

    def exchange(self, terms: Terms, ask: Ask) -> Grant:
        """Give calls back and take others; the same again does no harm."""
        ...


class RunConcurrencyLimits:
    """These limits count in Redis, for all workers of a run."""

    def __init__(self, shared: Shared) -> None:
        self._link = shared.link
        self._keys = shared.keys
        self._script = shared.link.client.register_script(_EXCHANGE)

    def exchange(self, terms: Terms, ask: Ask) -> Grant:
        """See `ConcurrencyLimits`. It waits for Redis as every call of a link does.

        Raises:
            BrokerUnavailable, WrongBroker: as the link does.
        """
        endpoint = hashlib.sha256(" ".join(sorted(terms.urls)).encode()).hexdigest()[:12]
        keys = [self._keys(f"{what}:{endpoint}") for what in ("calls", "pace", "claims", "longest")]
        arguments: list[str | int] = [
            terms.concurrency,
            int(terms.interval_s * 1e6),
            int(terms.lease_s * 1000),
            ask.who,
            ask.held,
            len(ask.ended),
            *ask.ended,
            *ask.wanted,
        ]
        reply: list[Any] = self._link(lambda client: self._script(keys, arguments, client=client))
        return Grant([name.decode() for name in reply[1:]], int(reply[0]) / 1e6)


class ProcessConcurrencyLimits:
    """These limits count in this process, for one endpoint, by the script's rules. One thread uses them at a time."""

    def __init__(self) -> None:
        self._under_way: set[str] = set()
        self._due = 0.0  # monotonic

    def exchange(self, terms: Terms, ask: Ask) -> Grant:
        """See `ConcurrencyLimits`."""
        self._under_way.difference_update(ask.ended)
        begun: list[str] = []
        for name in ask.wanted:
            if len(self._under_way) >= terms.concurrency:
                break
            now = time.monotonic()
            if (early_s := self._due - now - terms.interval_s / 2) > 0:
                return Grant(begun, early_s)
            self._due = max(self._due, now) + terms.interval_s
            self._under_way.add(name)
            begun.append(name)
        return Grant(begun, 0.0)
