"""Read the header `Retry-After`, by which a busy server sets how long to wait before the next request.

In: the header of a reply. Out: seconds. Used by `web.client`; `web.rotation` then pauses the server.
"""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime


def retry_after_s(header: str | None) -> float | None:
    """Return the seconds of a `Retry-After`, a number or a date; they may be negative. None if it is neither."""
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
