"""A busy server says by its header `Retry-After` how long it wants to be left alone.

In: the header of a reply. Out: seconds. Used by `web.client`; `web.rotation` then lets the server rest.
"""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime


def retry_after_s(header: str | None) -> float | None:
    """Read the seconds that a `Retry-After` asks for, by a number or a date; they may be negative. None: neither."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) else None
