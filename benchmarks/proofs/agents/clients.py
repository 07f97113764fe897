"""Unmodified clients and agents: each trains two steps by a gateway's address, and all that trains is what was sampled.

In: an agent's module, for the tasks of a run. Out: what held of the run's journal beside the record of its engine
(`benchmarks.proofs.agents.recorded_run`), and into how many sequences the agents' conversations went. The demo's tiny
model is the policy; where a harness wants well-formed calls, answers that the scripted engine draws by the seed. An
agent reports its own count of calls and conversations in the remark of its end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.proofs.agents.recorded_run import Sampled, read_record
from benchmarks.proofs.agents.stage import KindStage
from benchmarks.results import ROOT
from benchmarks.rigs.clients import programs
from broker.messages import Completion, Prompt, ScoredGroup, Segment
from learner.journal.ledger import read_ledger, read_step
from tasks.boxes import box_problems

RUN_S: Final = 1800.0  # of one kind's run, on a machine that has more to do
STEPS, GROUP_SIZE = 2, 4
MODEL: Final = ROOT / "config" / "recipes" / "demo_agents_model"
# A scripted policy's answers: harnesses are told by their text, and each turn draws one.
CODES: Final = (
    "I look first.\n<code>\nprint(6 * 7)\n</code>",
    "<code>\nfinal_answer('right')\n</code>",
    "It is wrong.\n<code>\nfinal_answer('wrong')\n</code>",
    "I do not know.",
)
STOPS: Final = (
    "Observation:",
    "Calling tools:",
    "</code>",
)  # of smolagents' requests: a turn ends with the first
SUBMIT: Final = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo "
BASHES: Final = tuple(
    f'I act.<tool_call>{{"name": "bash", "arguments": {json.dumps({"command": command})}}}</tool_call>'
    for command in ("echo $((6 * 7)) > found; cat found", "cat nothing", SUBMIT + "right", SUBMIT + "wrong")
)


def openai(stage: KindStage) -> None:
    """Train a script on `openai`: chat, streamed chat, responses."""
    _functions(stage, programs.OPENAI, "chat", "streamed", "responses")


def anthropic(stage: KindStage) -> None:
    """Train a script on `anthropic`: messages, streamed messages."""
    _functions(stage, programs.ANTHROPIC, "messages", "streamed")


def openai_agents(stage: KindStage) -> None:
    """Train an agent of OpenAI's SDK, by responses and by chat completions."""
    _functions(stage, programs.OPENAI_AGENTS, "responses", "chat")


def langgraph(stage: KindStage) -> None:
    """Train a graph with a tool node."""
    _functions(stage, programs.LANGGRAPH, "graph")


def litellm(stage: KindStage) -> None:
    """Train a script on `litellm`, by OpenAI's API and by Anthropic's."""
    _functions(stage, programs.LITELLM, "as_openai", "as_anthropic")


def smolagents(stage: KindStage) -> None:
    """Train a CodeAgent as a command, behind walls where its Python can be shown there."""
    _command(stage, programs.SMOLAGENTS, CODES, stops=STOPS)


def mini_swe_agent(stage: KindStage) -> None:
    """Train mini-swe-agent as a command in the same way, with its own configuration."""
    _command(stage, programs.MINI_SWE_AGENT, BASHES)


def _functions(stage: KindStage, program: str, *names: str) -> None:
    """Train functions, a task each, on boxes, with the demo's model."""
    stage.file("boxes.py", (ROOT / "tasks" / "boxes.py").read_text(encoding="utf-8"))
    stage.file("own_agent.py", programs.COUNTED + program)
    environments = {
        name: {"type": "agent", "import_path": f"own_agent:{name}", "python": str(stage.python)}
        | {"max_turns": 4, "turn_tokens": 24, "start_deadline_s": 600}
        for name in names
    }
    _trained(
        stage,
        environments,
        data={"max_prompt_tokens": 64},
        sampling={"max_tokens": 192},
        generators={"engine": {"type": "hf", "batch_groups": 4, "threads": 1}},
    )


def _command(stage: KindStage, program: str, answers: Sequence[str], *, stops: Sequence[str] = ()) -> None:
    """Train a command, with a policy that says one of these answers, up to a stop sequence of its requests."""
    script = stage.file("own_command.py", programs.COUNTED + program)
    is_walled = stage.python is not None and _is_shown(stage.python)
    words = {"command": [str(stage.python), str(script)], "sandbox": is_walled}
    words |= {"readable": [str(script)]} if is_walled else {}
    if not is_walled:
        stage.leaves_out("walls, for want of a Python that root can read there without its rights")
    _trained(
        stage,
        {"command": {"type": "command", "max_turns": 12, "memory_mb": 4096, "deadline_s": 900} | words},
        data={"max_prompt_tokens": 32_000},
        sampling={"max_tokens": 32_000},
        generators={"engine": {"type": "fake", "answers": answers, "by": "seed"}},
        stops=stops,
    )


def _is_shown(python: Path) -> bool:
    """Return whether walls can show an interpreter: behind them root is a user without rights."""
    places = (python.absolute(), python.resolve())
    return os.getuid() != 0 or all(one.stat().st_mode & 0o001 for place in places for one in place.parents)


def _trained(
    stage: KindStage, environments: Mapping[str, Any], *, stops: Sequence[str] = (), **sections: Any
) -> None:
    """Train two steps, and hold what was trained to what was sampled."""
    rows = box_problems("train", STEPS * len(environments) * 4)
    tasks = list(environments) * len(rows)
    lines = [
        json.dumps({**row, "verification_info": {**row["verification_info"], "type": task}})  # type: ignore[dict-item]
        for row, task in zip(rows, tasks, strict=False)
    ]
    stage.file("rows.jsonl", "".join(f"{line}\n" for line in lines))
    tree = {
        "name": "client",
        "runs_dir": str(stage.folder / "runs"),
        "model": {"path": str(MODEL), "dtype": "float32"},
        "agents": {"episodes": 16, "max_attempts": 2},
        "scorers": {
            "workers": 1,
            "tasks": {
                name: {"environment": one, "scorer": {"type": "environment"}}
                for name, one in environments.items()
            },
        },
        "learner": {
            "steps": STEPS,
            "groups_per_step": len(environments),
            "max_lag": 0,
            "device": "cpu",
            "threads": 1,
            "zero": {"stage": 1},
            "filters": {"zero_variance": "keep"},  # so that each task has a group in each step
        },
    } | sections
    tree["data"] = {
        **sections["data"],
        "train": {"type": "dataset", "path": "rows.jsonl"},
        "shuffle": False,
        "cache_dir": "cache",
    }
    tree["sampling"] = {**sections["sampling"], "group_size": GROUP_SIZE}
    stage.file("run.yaml", json.dumps(tree))
    record = stage.folder / "record"
    record.unlink(missing_ok=True)
    shutil.rmtree(stage.folder / "runs", ignore_errors=True)  # of a proof before this one
    code = _up(stage, record)
    ledger = read_ledger(stage.folder / "runs" / "client" / "journal")
    stage.holds("two steps were trained", code == 0, len(ledger.steps) == STEPS)
    groups = [
        group
        for step in ledger.steps
        for group in read_step(stage.folder / "runs" / "client" / "journal", step)[0]
    ]
    compare(stage, groups, read_record(record), list(environments), is_stopped=_stopped_by(stops))


def _up(stage: KindStage, record: Path) -> int:
    """Run the configuration in its folder, and return the exit code."""
    variables = {
        name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "PYTHONSAFEPATH")
    }
    with (stage.folder / "run.log").open("wb") as log:
        return subprocess.run(
            [sys.executable, "-P", "-m", "benchmarks.proofs.agents.recorded_run", str(record), "run.yaml"],
            cwd=stage.folder,
            env=variables | {"PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            timeout=RUN_S,
            check=False,
        ).returncode


def compare(
    stage: KindStage,
    groups: Sequence[ScoredGroup],
    record: Sequence[Sampled],
    tasks: Sequence[str],
    *,
    is_stopped: Callable[[bytes], bool] = lambda _: False,
) -> None:
    """Hold groups that trained to the record of their engine, and to what their agents counted.

    Args:
        is_stopped: whether ids end with a stop sequence of a request: then the rest of the sample is in no turn.
    """
    completions = [(group.rollout.prompt, one) for group in groups for one in group.rollout.completions]
    turns = [
        [turn for segment in one.segments for turn in _turns(prompt, segment)] for prompt, one in completions
    ]
    trained = Counter(turn for one in turns for turn in one)
    stage.holds(
        "ids, log-probabilities and mask of each trained turn are a sample of the engine's, of each sample once",
        bool(trained),
        _are_sampled(trained, Counter(record), is_stopped),
    )
    stage.holds(
        "nobody's log-probability is said of what nobody sampled",
        bool(completions),
        all(
            not segment.logprobs[~segment.trains].any() for _, one in completions for segment in one.segments
        ),
    )
    said = [_said(one) for _, one in completions]
    stage.holds("every episode ended by its agent", bool(said), all(said))
    # At a limit an agent is told so, which is no turn.
    told = [bool(one.ended_by and one.ended_by.is_cut) for _, one in completions]
    calls = [one.get("calls", 0) - was_told for one, was_told in zip(said, told, strict=True)]
    stage.holds(
        "each call of an agent is a turn that trains, and none else is",
        bool(calls),
        calls == list(map(len, turns)),
    )
    sequences = [len(one.segments) for _, one in completions]
    conversations = [one.get("conversations") for one in said]
    stage.holds("each conversation is one sequence", bool(sequences), sequences == conversations)
    stage.holds("agents went on from what was said", max(map(len, turns), default=0) > 1)
    stage.holds("each of the tasks was trained", {prompt.task for prompt, _ in completions} == set(tasks))
    stage.episodes = len(completions)
    stage.conversations = sum(one.get("conversations", 0) for one in said)
    stage.sequences = sum(sequences)


def _are_sampled(
    trained: Counter[Sampled], record: Counter[Sampled], is_stopped: Callable[[bytes], bool]
) -> bool:
    """Return whether each turn is a sample of its own, whole or up to its stop sequence."""
    left = record - trained
    for turn in (trained - record).elements():
        whole = next((one for one in left if one.begins_with(turn)), None)
        if whole is None or not is_stopped(turn.ids):
            return False
        left -= Counter([whole])
    return True


def _stopped_by(stops: Sequence[str]) -> Callable[[bytes], bool]:
    """Return what says whether ids of the scripted engine, which are a text's bytes, end with one of these."""
    ends = tuple(stop.encode() for stop in stops)
    return lambda ids: bytes(np.frombuffer(ids, "<i4").tolist()).endswith(ends)


def _turns(prompt: Prompt, segment: Segment) -> Iterator[Sampled]:
    """Yield the runs of a sequence that train, each behind all that stands before it."""
    given = segment.prompt_ids if len(segment.prompt_ids) else prompt.token_ids
    bounds = list(accumulate(segment.loss_mask, initial=0))
    for number, (first, end) in enumerate(pairwise(bounds)):
        if number % 2 == 0 and end > first:
            before = np.concatenate([given, segment.token_ids[:first]])
            yield Sampled.of(before, segment.token_ids[first:end], segment.logprobs[first:end])


def _said(completion: Completion) -> dict[str, int]:
    """Return what an agent said of its calls; nothing where it did not come to its end."""
    try:
        found = json.loads(completion.remark)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
