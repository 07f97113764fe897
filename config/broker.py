"""This section says how the roles meet: where Redis is, and how long a silent worker is believed to be alive."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from config.section import Section


class BrokerConfig(Section):
    """Redis and the delivery of work."""

    url: SecretStr | None = None
    """`redis://` or `rediss://` URL; comes from REDIS_URL. Unset: a private server is started on loopback."""
    lease_s: float = Field(60.0, ge=0.5)
    """Seconds without a renewal after which a worker's entries go to another one. Renewed every third of it."""
    max_attempts: int = Field(5, ge=1)
    """Times that work on an entry may begin before it goes to `dead`."""
    outage_s: float = Field(300.0, gt=0)
    """Seconds that a process waits for an unreachable Redis before it ends with a reason."""
    durability: Literal["aof", "none"] = "aof"
    """`aof`: the learner refuses a Redis that forgets (no append-only file, or an eviction policy).
    `none`: you mean it."""
    maxmemory_mb: int = Field(0, ge=0)
    """Memory limit of the private server in MiB; 0 is none. An external Redis has its own."""
