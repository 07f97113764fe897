"""Section of the journal: how long to keep the data that steps trained on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from config.section import Section


class JournalConfig(Section):
    """How long to keep payloads, the data that steps trained on. The record of each group is kept for ever."""

    keep: Literal["all", "since_checkpoint"] = "all"
    """`since_checkpoint`: remove payloads that the oldest kept checkpoint covers, unless `keep_days` or `keep_mb` keeps
    them. `all`: remove only what those two keys say."""
    keep_days: float | None = Field(None, gt=0)
    """Days to keep a payload. Payloads that recovery needs are kept longer."""
    keep_mb: int | None = Field(None, ge=1)
    """MiB of payloads to keep, the newest first. Payloads that recovery needs are kept beyond it."""
    segment_mb: int = Field(64, ge=1)
    """Size of one payload file in MiB. Whole files are removed."""
    untrained_mb: int = Field(256, ge=0)
    """MiB of dropped groups and held-out evaluations to keep for people to read, the newest first. 0: none."""
