"""What a call of an agent that owns its loop costs the agents' worker, in processor time: gateway, tokens and Redis.

Conversations of two thousand tokens with eight tools, answered as streams: each answer is a call of a tool, whose
result is sent back with the whole history. The client is a process that speaks HTTP by hand, and opens episodes at the
gateway. The worker is the real one, in a process of its own; a script answers its calls at once, through the
generators' side of the protocol. What episodes cost, from their opening, and their groups, from their lease to their
hand-over, is part of the calls' cost.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from benchmarks.comparison import Comparison
from benchmarks.rigs.clients.raw_client import Client, ConversationOrder, client
from benchmarks.rigs.episodes.episode_rig import FOR_EVER_S, answering
from benchmarks.rigs.episodes.process_rig import ProcessRig, process_rig
from benchmarks.rigs.episodes.real_vocabulary import END, save_tokenizer
from benchmarks.rigs.groups import demo_run, new_group, prompt
from broker.messages import Ids
from config.run import Run
from tools.up.served_judge import free_port

BAR_MS = 4.0
GROUP = 8  # episodes
MOST_TOKENS = 8192  # of an episode
WORDS = 520  # of the first message
NAMES = ("search", "read_file", "write_file", "run", "list_folder", "move", "ask", "submit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes that are measured.

    Attributes:
        groups: of a round, of eight episodes each.
        turns: of an episode.
        at_once: conversations.
        rounds: that are measured, behind one that is not.
    """

    groups: int = 16
    turns: int = 8
    at_once: int = 16
    rounds: int = 5


FULL = Size()
SMOKE = Size(groups=1, turns=2, at_once=2, rounds=1)


def measure(size: Size) -> list[Comparison]:
    """Make the comparison."""
    ours, counts = [], Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        said = _Said(save_tokenizer(folder / "model"))
        run = _run(folder, size)
        with process_rig(run, agents=1) as rig, answering(rig.link, rig.keys, said), client() as asking:
            _round(rig, asking, size)
            for _ in range(size.rounds):
                seconds, counted = _round(rig, asking, size)
                ours.append(1000 * seconds / counted["calls"])
                counts.update(counted)
    calls = counts["calls"]
    return [
        Comparison(
            what=f"a call with {counts['given'] / calls:,.0f} tokens of history and {len(NAMES)} tools, "
            f"{counts['sampled'] / calls:.0f} tokens as a stream, {size.at_once} agents at once: the worker",
            unit="ms of a processor",
            ours=ours,
            beside="bar",
            other=[BAR_MS] * len(ours),
            less_is_better=True,
        )
    ]


class _Said:
    """What the policy says: a call of a tool, with a sentence before it."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._ids = [
            np.array(tokenizer.encode(_answer(number), add_special_tokens=False), np.int32)
            for number in range(64)
        ]
        self._next = 0

    def __call__(self) -> Ids:
        """Return the ids of an answer."""
        self._next += 1
        return self._ids[self._next % len(self._ids)]


def _answer(number: int) -> str:
    call = (
        f'{{"name": "search", "arguments": {{"query": "the lines about entry {number}", "most": {number}}}}}'
    )
    sentence = f"Entry {number} may be in another file, so I look for what is said of it before I answer."
    return f"{sentence}\n<tool_call>\n{call}\n</tool_call>{END}"


def _round(rig: ProcessRig, asking: Client, size: Size) -> tuple[float, Mapping[str, int]]:
    """Play a round; returns the worker's processor seconds, and what the client counted.

    The seconds begin before the client does: it opens its first episodes while the groups are made.
    """
    before = rig.spent()
    asking.begin(
        ConversationOrder(
            url=f"http://127.0.0.1:{rig.run.agents.gateway.port}",
            conversations=size.groups * GROUP,
            at_once=size.at_once,
            turns=size.turns,
            body={
                "model": "policy",
                "stream": True,
                "stream_options": {"include_usage": True},
                "temperature": 0.7,
                "max_tokens": 512,
                "tools": [_tool(name) for name in NAMES],
            },
            messages=[
                {"role": "system", "content": "You look things up for others, and answer in few words."},
                {"role": "user", "content": "Episode {number}. " + _text(WORDS)},
            ],
            result=_text(40),
            opens=True,
        )
    )
    done = rig.play(
        size.groups, lambda group_id: new_group(prompt(group_id, n=GROUP, max_tokens=MOST_TOKENS))
    )
    if any(len(one.segments) != 1 for group in done.rollouts for one in group.completions):
        raise RuntimeError("a conversation became several sequences")
    counts = asking.counted()
    return rig.spent().since(before).agents, counts


def _text(words: int) -> str:
    some = np.random.default_rng(words).integers(0, 400, words)
    return " ".join(
        f"line {number} has" if number % 7 == 0 else "the old entry of" for number in some[: words // 3]
    )


def _tool(name: str) -> dict[str, Any]:
    properties = {
        "query": {
            "type": "string",
            "description": "What to look for, in plain words; names as they are written.",
        },
        "most": {"type": "integer", "description": "At most so many results, the best first."},
    }
    said = f"Does {name.replace('_', ' ')} for you, and says what came of it, or why it could not be done."
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    return {"type": "function", "function": {"name": name, "description": said, "parameters": parameters}}


def _run(folder: Path, size: Size) -> Run:
    return demo_run(
        folder,
        name="gateway",
        model={"path": str(folder / "model")},
        data={"train": {"type": "procedural"}, "held_out": None, "max_prompt_tokens": 8192},
        evaluation={"every": 0},
        sampling={"group_size": GROUP, "max_tokens": MOST_TOKENS},
        learner={"group_deadline_s": FOR_EVER_S},
        broker={"lease_s": 60},
        agents={"episodes": size.groups * GROUP, "gateway": {"port": free_port()}},
        scorers={"tasks": {"math": {"environment": {"type": "remote", "max_turns": size.turns}}}},
    )
