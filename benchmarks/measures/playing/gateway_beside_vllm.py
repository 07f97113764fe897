"""What agents' calls cost beside the engine: through the gateway to a generator on vLLM, and to vLLM's own server.

The same requests, from the same client, of which none goes on from another. Ours is their whole way: the agents' worker
with its gateway, Redis, and the generator. Beside it is what `vllm serve` runs. Processor seconds are those of all
processes but the client and vLLM's own behind its front end: the engine core, and workers where vLLM gives them
processes of their own, which are known by their titles. Our records have log-probabilities and the versions that
sampled them; theirs are texts. As a stream ours sends a whole message in one chunk, when it is recorded, where vLLM's
server sends an event a token: its events are part of what it costs there. A random model of a million parameters,
vLLM's CPU build with one thread, or a GPU.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.comparison import Comparison, TimedWork, median_interval, take_turns
from benchmarks.rigs.clients.raw_client import Client, ConversationOrder, client
from benchmarks.rigs.episodes.process_rig import SHOW, ProcessRig, process_rig, seconds_of
from benchmarks.rigs.groups import demo_run, new_group, prompt
from benchmarks.rigs.random_model import save_folder, save_weights, tiny_model
from broker.processes import stop
from config.endpoint import ServeConfig
from config.run import Run
from tools.up.process_tree import below
from tools.up.served_judge import free_port, served_judge

BAR = 1.1
GROUP = 8  # episodes
MOST_TOKENS = 512  # of an episode
START_S = 600.0  # for vLLM's server to answer
# What the titles of vLLM's processes behind its front end begin with; `VLLM::APIServer` is one before it.
ENGINE = ("VLLM::EngineCore", "VLLM::Worker")
PROMPT = "Say what you think of number {number}. " + "It is one of many, and others were said before. " * 5
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        groups: of a round, of eight episodes each.
        calls: of an episode.
        tokens: of an answer.
        rounds: for each way to ask, of each side.
    """

    groups: int = 1
    calls: int = 4
    tokens: int = 256
    rounds: int = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to ask."""

    how: str  # it is answered, for people
    options: Mapping[str, Any] = field(default_factory=dict)  # of a request
    theirs: Mapping[str, Any] = field(default_factory=dict)  # of a request to vLLM's server
    beside: str = ""  # what these are, for people


WAYS = (
    Way(how="whole"),
    Way(
        how="as a stream, by ours in one chunk when it is recorded and by theirs in an event a token,",
        options={"stream": True, "stream_options": {"include_usage": True}},
    ),
    Way(how="whole", theirs={"logprobs": True}, beside=", which says log-probabilities as ours records them"),
)
FULL = Size()
SMOKE = Size(calls=1, tokens=8, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparisons, one for each way to ask."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, weights = _run(folder, size)
        with (
            process_rig(run, generators=1, agents=1, weights=weights) as rig,
            _served(Path(run.model.path), folder / "template.jinja") as (url, server),
            client() as asking,
        ):
            for way in WAYS:

                def ours(_: int, *, way: Way = way) -> TimedWork:
                    return _by_gateway(rig, asking, size, way)

                def other(_: int, *, way: Way = way) -> TimedWork:
                    return _by_server(server, url, asking, size, way)

                found += _compared(size, way, *take_turns(ours, other, rounds=size.rounds))
    return found


def _compared(size: Size, way: Way, ours: list[TimedWork], other: list[TimedWork]) -> list[Comparison]:
    compared = Comparison(
        what=f"a call that is answered {way.how} with {size.tokens} tokens, {GROUP} agents at once: all but the engine",
        unit="ms of a processor",
        ours=[1000 / turn.rate for turn in ours],
        beside=f"the same requests to vLLM's own server{way.beside}",
        other=[1000 / turn.rate for turn in other],
        less_is_better=True,
    )
    costs = [1 / ratio for ratio in compared.ratios]
    return [
        compared,
        Comparison(
            what="the same: our cost in theirs, upper end of the 90% interval of the median",
            unit="ratio",
            ours=[median_interval(costs)[1]],
            beside="bar",
            other=[BAR],
            less_is_better=True,
        ),
    ]


def _by_gateway(rig: ProcessRig, asking: Client, size: Size, way: Way) -> TimedWork:
    """Play a round of episodes; a turn's amount is answers of full length, its seconds those of processors."""
    (generator,) = rig.pids("generators")
    before, engine = rig.spent(), beside_engine(generator)
    asking.begin(_order(f"http://127.0.0.1:{rig.run.agents.gateway.port}", size, way.options, opens=True))
    rig.play(size.groups, lambda group_id: new_group(prompt(group_id, n=GROUP, max_tokens=MOST_TOKENS)))
    counts, spent = asking.counted(), rig.spent().since(before)
    front = beside_engine(generator) - engine
    return TimedWork(counts["sampled"] / size.tokens, front + spent.agents + spent.environments + spent.redis)


def _by_server(server: int, url: str, asking: Client, size: Size, way: Way) -> TimedWork:
    before = beside_engine(server)
    asking.begin(_order(url, size, {**way.options, **way.theirs}, opens=False))
    counts = asking.counted()
    return TimedWork(counts["sampled"] / size.tokens, beside_engine(server) - before)


def _order(url: str, size: Size, options: Mapping[str, Any], *, opens: bool) -> ConversationOrder:
    return ConversationOrder(
        url=url,
        conversations=size.groups * GROUP,
        at_once=GROUP,
        turns=size.calls,
        body={"model": "policy", "max_tokens": size.tokens, "temperature": 1.0, **options},
        messages=[{"role": "user", "content": PROMPT}],
        opens=opens,
    )


def beside_engine(pid: int) -> float:
    """Return the processor seconds of a process and its descendants but for vLLM's engine. Raises RuntimeError."""
    tree = below(pid)
    engine = {process.pid for process in tree if process.words and process.words[0].startswith(ENGINE)}
    if not engine:
        raise RuntimeError(f"no process below {pid} has a title that begins with {' or '.join(ENGINE)}")
    inside = {process.pid for process in tree if process.parent in engine}
    others = [process.pid for process in tree if process.pid not in engine | inside]
    with contextlib.suppress(OSError):  # one has ended meanwhile
        return sum(seconds_of(one)[0] for one in (pid, *others))
    return beside_engine(pid)


@contextlib.contextmanager
def _served(model: Path, template: Path) -> Iterator[tuple[str, int]]:
    """Run vLLM's own server over a model; yields its address and its process."""
    template.write_text(TEMPLATE, encoding="utf-8")
    on_cpu = not torch.cuda.is_available()
    serve = ServeConfig(
        model=str(model),
        port=free_port(),
        kv_cache_mb=512 if on_cpu else None,
        max_num_seqs=GROUP,
        max_model_len=1024,
        enforce_eager=True,
        arguments=(
            *("--served-model-name", "policy", "--chat-template", str(template)),
            *("--dtype", "float32", "--generation-config", "vllm"),
        ),
    )
    found = served_judge(serve, on_cpu=on_cpu)
    said = None if SHOW in os.environ else subprocess.DEVNULL
    variables = {**os.environ, **found.variables, "VLLM_API_KEY": "none"}
    process = subprocess.Popen(found.args, env=variables, stdout=said, stderr=said)
    try:
        _wait_for(found.health_url, process)
        yield found.address, process.pid
    finally:
        stop(process, grace_s=10)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers. Raises RuntimeError, TimeoutError."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"vLLM's server has ended; set {SHOW}=1 to see what it says")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10):  # noqa: S310 - loopback
            return
        time.sleep(0.5)
    raise TimeoutError(f"vLLM's server did not answer within {START_S:.0f} s")


def _run(folder: Path, size: Size) -> tuple[Run, Path]:
    """Write a model, and return a run with it, and the file of its weights."""
    model = tiny_model()
    save_folder(model, folder / "model")
    (folder / "v0").mkdir()
    file = save_weights(model, folder / "v0" / "model.safetensors")
    run = demo_run(
        folder,
        name="beside",
        model={"path": str(folder / "model"), "dtype": "float32", "chat_template": TEMPLATE},
        data={"train": {"type": "procedural"}, "held_out": None, "max_prompt_tokens": 512},
        evaluation={"every": 0},
        sampling={"group_size": GROUP, "max_tokens": MOST_TOKENS},
        generators={
            "groups_in_flight": None,
            "engine": {
                "type": "vllm",
                "kv_cache_mb": None if torch.cuda.is_available() else 512,
                "max_num_seqs": GROUP,
                "max_model_len": 1024,
                "enforce_eager": True,
                "threads": 1,
            },
        },
        agents={"episodes": size.groups * GROUP, "gateway": {"port": free_port()}},
        learner={"groups_per_step": 64},
        scorers={"tasks": {"math": {"environment": {"type": "remote", "max_turns": size.calls}}}},
    )
    return run, file
