"""Define the judge that a run serves itself: its `vllm serve` command, its address, and its key.

In: the run's section `judge.serve`. Out: a command with its environment for `tools.up.role_commands`, and the variables
for the scorers. Nothing is started here; `tools.up.supervisor` starts the command, waits until it answers, watches it
and ends it. The server listens on loopback, and requires a key, which is random at every start and is in no file.
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
# The program behind `vllm serve`. That command itself reads the metadata of a package `vllm`, and fails without it: the
# wheel of the CPU build has another name.
SERVER = "vllm.entrypoints.openai.api_server"
KEY_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedJudge:
    """A served judge, to be started."""

    args: tuple[str, ...]
    gpus: str  # in the form of `CUDA_VISIBLE_DEVICES`; "": all
    variables: dict[str, str]  # of its environment, the key among them
    address: str  # http://HOST:PORT
    key: str

    @property
    def health_url(self) -> str:
        """The URL that answers when it is ready."""
        return f"{self.address}/health"

    @property
    def for_scorers(self) -> dict[str, str]:
        """Return the variables for the scorers."""
        return {URL_VARIABLE: f"{self.address}/v1", KEY_VARIABLE: self.key}


def served_judge(serve: ServeConfig, *, on_cpu: bool) -> ServedJudge:
    """Return the judge of `serve`, on a port that is free now.

    Raises:
        ConfigError: a scheduler gave fewer GPUs than are named.
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
    """Return the command line of the server."""
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
    """Return a free port of loopback; another process may take it before the server does."""
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        port: int = listening.getsockname()[1]
    return port
