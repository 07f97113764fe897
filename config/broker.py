"""Section of the broker: Redis, and the delivery of work."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from config.section import Section


class BrokerConfig(Section):
    """Redis and the delivery of work."""

    url: SecretStr | None = None
    """`redis://` or `rediss://` URL. Comes from REDIS_URL. Unset: start a private server on loopback."""
    lease_s: float = Field(60.0, ge=0.5)
    """Seconds after which the entries of a worker that stopped renewing its lease go to another worker. A worker renews
    it every third of this."""
    max_attempts: int = Field(5, ge=1)
    """Attempts at an entry before it goes to the stream `dead`."""
    outage_s: float = Field(300.0, gt=0)
    """Seconds that a process waits for an unreachable Redis before it exits with the reason."""
    durability: Literal["aof", "none"] = "aof"
    """`aof`: refuse a Redis that can lose data (no append-only file, or an eviction policy). `none`: accept any."""
    maxmemory_mb: int = Field(0, ge=0)
    """Memory limit of the private server in MiB. 0: none. An external Redis has its own."""
