"""These sections describe a served model that scorers ask, and one that the run serves itself while it goes on.

`millrace up` starts the latter, and scorers whose endpoint names no server ask it. Another launcher starts it by its
own means, and says where by the variables below, in the environment of the scorers.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from config.generators import VllmEngineConfig
from config.section import GpuNumber, Section

URL_VARIABLE = "SERVED_JUDGE_URL"  # where it answers, for scorers; `config.loading` reads it
KEY_VARIABLE = "SERVED_JUDGE_API_KEY"  # what it wants to be shown


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


class ServeConfig(Section):
    """What `vllm serve` is told, for a server of OpenAI's API on loopback."""

    model: str
    """A Hugging Face name or folder, such as the `model` that a run on `grade` rows has exported."""
    gpus: tuple[GpuNumber, ...] = ()
    """Its GPUs, `tensor_parallel` of them, best ones that no other role has. Empty: all are visible."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that it spreads its model over."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    """Share of the GPU's memory that it takes, as of `generators.engine`."""
    kv_cache_mb: int | None = Field(None, ge=1)
    """Size of its KV cache in MiB; unset: what is left of `gpu_memory_utilization`. Needed on a CPU, and on a GPU that
    another role uses too."""
    max_model_len: int | None = Field(None, ge=1)
    """Longest question and reply together, in tokens; unset: what the model is made for. It has to be more than the
    `max_tokens` of each endpoint that asks it."""
    max_num_seqs: int = Field(256, ge=1)
    """Replies sampled side by side."""
    enforce_eager: bool = False
    """No CUDA graphs and no compilation: faster to start, slower to run."""
    port: int | None = Field(None, ge=1, le=65535)
    """Its port on loopback; unset: a free one."""
    arguments: tuple[str, ...] = ()
    """More words for `vllm serve`, such as `--dtype` and `float32`."""
    start_timeout_s: float = Field(600.0, gt=0)
    """Seconds that it may take until it answers, the model's download included. No other role starts before."""
    silence_s: float = Field(120.0, gt=0)
    """Seconds for which it may not answer, once it has; then it is killed and started again."""

    @property
    def engine(self) -> VllmEngineConfig:
        """The same as an engine's section, for what reckons with an engine's memory and environment."""
        return VllmEngineConfig(
            tensor_parallel=self.tensor_parallel,
            gpu_memory_utilization=self.gpu_memory_utilization,
            kv_cache_mb=self.kv_cache_mb,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            enforce_eager=self.enforce_eager,
        )


class ServedJudgeConfig(Section):
    """The judge of this run."""

    serve: ServeConfig | None = None
    """Serve one for all endpoints that name no `urls`; unset: none is."""


def base_url(address: str) -> str:
    """Return `http://h:8000`, `http://h:8000/v1/` and `http://h:8000/v1/chat/completions` as `http://h:8000/v1`."""
    url = address.rstrip("/").removesuffix("/chat/completions")
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1"


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches what listens at `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
