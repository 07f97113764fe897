"""The judge that a run serves itself: the words of its `vllm serve`, its address, and the key that it asks for.

In: the run's section `judge.serve`. Out: a command with its environment for `tools.up.role_commands`, and what the
scorers have to know of it. Nothing is started here; `tools.up.supervisor` starts the command, waits until it answers,
watches it and ends it. The server listens on loopback, and whoever has no key, which is made anew at every start and
is in no file, is refused there.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from dataclasses import dataclass

from config.endpoint import KEY_VARIABLE, URL_VARIABLE, ServeConfig
from config.gpus import visible
from generators.engines.vllm.environment import LIBRARIES, library_path, own_libnuma, variables

HOST = "127.0.0.1"
# What `vllm serve` runs. That command itself asks for the metadata of a package `vllm`, and ends without it: the wheel
# of the build for the CPU has another name.
SERVER = "vllm.entrypoints.openai.api_server"
KEY_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedJudge:
    """A served judge that is about to be started."""

    args: tuple[str, ...]
    gpus: str  # as `CUDA_VISIBLE_DEVICES` names them; "": all
    variables: dict[str, str]  # of its environment, the key among them
    address: str  # http://HOST:PORT
    key: str

    @property
    def health_url(self) -> str:
        """Where it says that it is ready."""
        return f"{self.address}/health"

    @property
    def for_scorers(self) -> dict[str, str]:
        """Returns the variables by which scorers know it."""
        return {URL_VARIABLE: f"{self.address}/v1", KEY_VARIABLE: self.key}


def served_judge(serve: ServeConfig, *, on_cpu: bool) -> ServedJudge:
    """Returns the judge of `serve`, on a port that is free now.

    Raises:
        ConfigError: a scheduler handed out fewer GPUs than are named.
    """
    port = serve.port or free_port()
    key = secrets.token_urlsafe(KEY_BYTES)
    settings = variables(serve.engine, on_cpu=on_cpu)
    environment = {
        name: value for name, value in settings.items() if name not in os.environ
    }  # the operator's stay
    if on_cpu and (libnuma := own_libnuma()) is not None:
        environment[LIBRARIES] = library_path(libnuma)
    return ServedJudge(
        args=words(serve, port),
        gpus=visible("judge.serve.gpus", serve.gpus[: serve.tensor_parallel]) if serve.gpus else "",
        variables=environment | {"VLLM_API_KEY": key},
        address=f"http://{HOST}:{port}",
        key=key,
    )


def words(serve: ServeConfig, port: int) -> tuple[str, ...]:
    """Returns the command line of the server."""
    options = {
        "--host": HOST,
        "--port": port,
        "--tensor-parallel-size": serve.tensor_parallel,
        "--gpu-memory-utilization": serve.gpu_memory_utilization,
        "--max-num-seqs": serve.max_num_seqs,
    }
    if serve.max_model_len is not None:
        options["--max-model-len"] = serve.max_model_len
    if serve.kv_cache_mb is not None:
        options["--kv-cache-memory-bytes"] = serve.kv_cache_mb << 20
    return (
        *(sys.executable, "-m", SERVER, "--model", serve.model),
        *(str(word) for option in options.items() for word in option),
        "--disable-uvicorn-access-log",
        *(["--enforce-eager"] if serve.enforce_eager else []),
        *serve.arguments,
    )


def free_port() -> int:
    """Returns a port of loopback that nobody has now; another process may take it before the server does."""
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        port: int = listening.getsockname()[1]
    return port
