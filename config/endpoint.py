"""Sections of a served model that scorers ask, and of a judge that the run serves itself.

`millrace up` starts the judge, and scorers whose endpoint names no server ask it. Other launchers start it themselves,
and pass its address in the variables below to the scorers.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from config.generators import VllmEngineConfig
from config.section import GpuNumber, Section

URL_VARIABLE = "SERVED_JUDGE_URL"  # the judge's address, for scorers; read by `config.loading`
KEY_VARIABLE = "SERVED_JUDGE_API_KEY"  # the judge's API key


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
    """An endpoint with OpenAI's API: vLLM, or any other server of `POST /v1/chat/completions`."""

    urls: tuple[ServerAddress, ...] = ()
    """`http://HOST:PORT`, with or without `/v1`, of one or several servers with the same model. The least busy one is
    asked, and another one where that fails."""
    model: str | None = None
    """Name of the model. Unset: the only one that the endpoint lists."""
    key_variable: str = Field("LLM_JUDGE_API_KEY", pattern=r"^[A-Z][A-Z0-9_]*_API_KEY$")
    """Environment variable of the scorers that holds the API key. Where it is unset, no key is sent."""
    max_tokens: int = Field(2048, ge=1)
    """Largest number of tokens in one reply, thinking included. vLLM refuses every question where this exceeds its
    `--max-model-len`; the worker then does not start."""
    temperature: float = Field(0.0, ge=0, le=2)
    """Temperature, which every call carries. Above 0 the same answer may be judged differently each time."""
    timeout_s: float = Field(60.0, gt=0)
    """Deadline in seconds for one reply, from the beginning of its call. A server that can't be reached is tried again
    for as long."""
    concurrency: int = Field(64, ge=1)
    """Concurrent calls, of all workers of the run together, which share them fairly. Sections with the same `urls` must
    agree. Those of a killed worker are free again 5 seconds after `timeout_s`."""
    requests_per_minute: int | None = Field(None, ge=1)
    """Calls per minute, of all workers of the run together, evenly spread. Unset: no limit."""
    cache: bool = True
    """Ask only once about the same answer to the same prompt. Replies are kept in Redis for 6 to 12 hours. `millrace
    up` shows their share as `cached`."""


class ServeConfig(Section):
    """Arguments of `vllm serve`, for a server of OpenAI's API on loopback."""

    model: str
    """Hugging Face name or folder, such as the `model` that a run on `grade` rows has exported."""
    gpus: tuple[GpuNumber, ...] = ()
    """GPUs, `tensor_parallel` of them, preferably not those of another role. Empty: all."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that the model is spread over (tensor parallelism)."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    """Share of the GPU's memory to use, as in `generators.engine`."""
    kv_cache_mb: int | None = Field(None, ge=1)
    """KV cache in MiB. Unset: what `gpu_memory_utilization` leaves. Set it on a CPU, and on a GPU that another role
    shares."""
    max_model_len: int | None = Field(None, ge=1)
    """Longest question plus reply, in tokens. Unset: the model's own limit. It must exceed the `max_tokens` of each
    endpoint that asks it."""
    max_num_seqs: int = Field(256, ge=1)
    """Replies sampled at once."""
    enforce_eager: bool = False
    """Use no CUDA graphs and no compilation: faster to start, slower to run."""
    port: int | None = Field(None, ge=1, le=65535)
    """Port on loopback. Unset: a free one."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, such as `--dtype` and `float32`."""
    start_timeout_s: float = Field(600.0, gt=0)
    """Deadline in seconds for the server's start, the model's download included. No other role starts before."""
    silence_s: float = Field(120.0, gt=0)
    """Restart the server when, after its first answer, it has not answered for this many seconds."""

    @property
    def engine(self) -> VllmEngineConfig:
        """The same arguments as an engine's section, for code that computes an engine's memory and environment."""
        return VllmEngineConfig(
            tensor_parallel=self.tensor_parallel,
            gpu_memory_utilization=self.gpu_memory_utilization,
            kv_cache_mb=self.kv_cache_mb,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            enforce_eager=self.enforce_eager,
        )


class ServedJudgeConfig(Section):
    """The judge that this run serves."""

    serve: ServeConfig | None = None
    """Serve a model for all endpoints without `urls`. Unset: serve none."""


def base_url(address: str) -> str:
    """Return `http://h:8000`, `http://h:8000/v1/` and `http://h:8000/v1/chat/completions` as `http://h:8000/v1`."""
    url = address.rstrip("/").removesuffix("/chat/completions")
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1"


def is_loopback(host: str) -> bool:
    """Return whether a server that listens at `host` can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
