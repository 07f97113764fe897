"""Logging of every role: one line an event on standard error, secrets masked in messages and tracebacks alike."""

from __future__ import annotations

import logging
import os
import sys
from urllib.parse import unquote, urlsplit

MASK = "**********"
KEY_SUFFIX = "_API_KEY"  # of every variable that holds a served model's key (config.endpoint)
SECRETS = frozenset({"HF_TOKEN", "MILLRACE_REWARD_TOKEN"})  # other variables that hold a secret as it is
KEY_PASSWORD = "ssl_password"  # noqa: S105 - of REDIS_URL's settings, the one that is a secret


def mask(text: str) -> str:
    """Return `text` with every secret of this process's environment replaced."""
    for secret in _secrets():
        text = text.replace(secret, MASK)
    return text


def set_up_logging(role: str, *, level: int = logging.INFO) -> None:
    """Send the log of this process to standard error, each line with time, role, level and where it came from."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Masking(f"%(asctime)s {role} %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("rq.worker", "httpx", "datasets", "filelock", "matplotlib", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _Masking(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


def _secrets() -> list[str]:
    found = [value for name, value in os.environ.items() if name in SECRETS or name.endswith(KEY_SUFFIX)]
    if url := os.environ.get("REDIS_URL"):
        try:
            parts = urlsplit(url)
            settings = (setting.partition("=") for setting in parts.query.split("&"))
            hidden = [parts.password or "", *(value for name, _, value in settings if name == KEY_PASSWORD)]
        except ValueError:  # not a URL; it is masked whole
            hidden = []
        found += [url, *hidden, *map(unquote, hidden)]
    return sorted((secret for secret in found if len(secret) > 3), key=len, reverse=True)
