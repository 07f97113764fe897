"""Log each event of a process as one line on standard error, with secrets masked in messages and tracebacks."""

from __future__ import annotations

import logging
import os
import sys
from functools import lru_cache
from urllib.parse import unquote, urlsplit

MASK = "**********"
KEY_SUFFIX = "_API_KEY"  # end of the name of every variable with a served model's key (config.endpoint)
SECRETS = frozenset({"HF_TOKEN", "MILLRACE_REWARD_TOKEN"})  # other variables whose whole value is a secret
KEY_PASSWORD = "ssl_password"  # noqa: S105 - the secret one among the settings of REDIS_URL


def mask(text: str) -> str:
    """Return `text` with every secret of this process's environment replaced."""
    for secret in _secrets():
        text = text.replace(secret, MASK)
    return text


def set_up_logging(role: str, *, level: int = logging.INFO) -> None:
    """Send the log of this process to standard error; each line has time, role, level and source."""
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
    """Return the secrets of the environment: each line of a log asks, so it is read again only where it has changed."""
    return _secrets_of(tuple(getattr(os.environ, "_data", os.environ).items()))  # undecoded, in microseconds


@lru_cache(maxsize=1)
def _secrets_of(_environment: tuple[tuple[str | bytes, str | bytes], ...]) -> list[str]:
    found = [value for name, value in os.environ.items() if name in SECRETS or name.endswith(KEY_SUFFIX)]
    if url := os.environ.get("REDIS_URL"):
        try:
            parts = urlsplit(url)
            settings = (setting.partition("=") for setting in parts.query.split("&"))
            hidden = [parts.password or "", *(value for name, _, value in settings if name == KEY_PASSWORD)]
        except ValueError:  # not a URL: mask all of it
            hidden = []
        found += [url, *hidden, *map(unquote, hidden)]
    return sorted((secret for secret in found if len(secret) > 3), key=len, reverse=True)
