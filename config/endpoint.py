"""This section describes a served model that scorers ask: its address, how to ask, and how much a run may ask."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from config.section import Section


def _address(url: str) -> str:
    """Return the URL without a user's name or password, since it travels with the run's configuration."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError(f"expected http://HOST:PORT or https://HOST, got {url.rpartition('@')[2]!r}")
    if "@" in parts.netloc:
        raise ValueError("no password in an address: a key comes from the variable that `key_variable` names")
    if parts.query or parts.fragment:
        raise ValueError(
            f"an address ends with its path, got {url.partition('?')[0].partition('#')[0]!r} and more; a "
            "key comes from the variable that `key_variable` names"
        )
    return url


ServerAddress = Annotated[str, AfterValidator(_address)]


class EndpointConfig(Section):
    """An endpoint with OpenAI's API: vLLM, or whatever else answers `POST /v1/chat/completions`."""

    urls: tuple[ServerAddress, ...] = ()
    """`http://HOST:PORT`, with or without `/v1`, of one server or several with the same model. The least busy one is
    asked, and another one where that fails."""
    model: str | None = None
    """Its name there. Unset: the only one that the endpoint lists."""
    key_variable: str = Field("LLM_JUDGE_API_KEY", pattern=r"^[A-Z][A-Z0-9_]*_API_KEY$")
    """Variable of the scorers' environment that holds the key. Where it is unset, none is sent."""
    max_tokens: int = Field(2048, ge=1)
    """Of one reply, its thinking included."""
    temperature: float = Field(0.0, ge=0, le=2)
    """Always sent. Above 0 the same answer may be judged differently each time."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds for one reply, from the moment that its call begins."""
    concurrency: int = Field(64, ge=1)
    """Calls at once, of all workers of the run together."""
    requests_per_minute: int | None = Field(None, ge=1)
    """Calls a minute, of all workers of the run together, evenly spread. Unset: as many as there is work for."""
    cache: bool = True
    """Ask only once about the same answer to the same prompt; replies are kept in Redis for a while."""


def base_url(address: str) -> str:
    """Return `http://h:8000`, `http://h:8000/v1/` and `http://h:8000/v1/chat/completions` as `http://h:8000/v1`."""
    url = address.rstrip("/").removesuffix("/chat/completions")
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1"
