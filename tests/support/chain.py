"""The learner's end of the chain on a real Redis, with the other roles' parts done by hand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec.structs import replace

from broker import codec
from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import (
    Announcement,
    Completion,
    FinishReason,
    Prompt,
    SampledGroup,
    ScoredGroup,
    Span,
    Split,
)
from broker.monitoring.work_meter import WorkMeter
from broker.protocol.run_owner import NewGroup, RunOwner
from broker.protocol.streams import Entry, hand_over
from broker.weight_files import FILE
from config.learner import LearnerConfig
from config.run import Run
from learner.assembly import Claimed, make_intake
from learner.data.held_out import HeldOut, HeldOutSet
from learner.data.prompts import PromptRows, PromptSource, Sampling
from learner.data.row import Row
from learner.groups.arrival_statistics import ArrivalCounter
from learner.groups.filters import Filters
from learner.groups.reconciliation import Reconciliation
from learner.groups.selection import Selection
from learner.groups.working_time import WorkingTime
from learner.journal.writer import Journal
from learner.policy_version import PolicyVersion
from learner.training.backend import Differences
from learner.training.batch import Batch
from learner.weight_sync.publisher import Publisher
from learner.weight_sync.transport import SavedWeights
from tests.support.differences import no_differences
from tests.support.groups import a_prompt, a_score


def make_run(folder: Path, **sections: Any) -> Run:
    """Return a run of two groups a step, with its folder under `folder`."""
    learner = {"groups_per_step": 2, "max_lag": 1, "steps": 100} | sections.pop("learner", {})
    return Run.model_validate(
        {
            "name": "test",
            "runs_dir": folder,
            "model": {"path": "nowhere"},
            "sampling": {"group_size": 2},
            "data": {"train": {"type": "procedural"}, "held_out": {"type": "procedural", "split": "eval"}},
            "learner": learner,
        }
        | sections
    )


def make_prompt(group_id: str, *, floor: int = 0, n: int = 2, issued_at: float | None = None) -> Prompt:
    """Return a prompt; evaluation's if its id is one."""
    return a_prompt(
        group_id,
        split=Split.EVAL if group_id.startswith("eval") else Split.TRAIN,
        n=n,
        floor=floor,
        issued_at=time.time() if issued_at is None else issued_at,
        epoch=0,
        row=0,
        fingerprint="f",
        seed=0,
        temperature=1.0,
        max_tokens=8,
        messages=({"role": "user", "content": "2 + 3?"},),
        token_ids=np.array([1, 2], np.int32),
        verification_info={"type": "math", "answer": {"value": "5"}},
    )


def make_scored(
    prompt: Prompt, rewards: Sequence[float | None], *, version: int | None = None, generator: str = "g"
) -> ScoredGroup:
    """Return what comes back of a prompt: one completion of two tokens for each reward."""
    version = prompt.floor if version is None else version
    completion = Completion.of_one_segment(
        token_ids=np.array([7, 9], np.int32),
        logprobs=np.array([-0.5, -0.25], np.float32),
        policy_spans=(Span(version=version, first=0, count=2),),
        finish_reason=FinishReason.STOP,
        text="5",
    )
    said = (a_score(reward, "the sandbox is away" if reward is None else "5") for reward in rewards)
    completions = (completion,) * len(rewards)
    return ScoredGroup(
        rollout=SampledGroup(
            prompt=replace(prompt, n=len(rewards)), completions=completions, generator=generator, seconds=0.1
        ),
        scores=tuple(said),
        rewards=tuple(rewards),
        worker="w",
        seconds=0.1,
    )


class NoDuties:
    """Nothing to look after while a chain waits: no feeder, no publisher, and the request that the test has set."""

    has_issued_all = False

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    @property
    def wanted(self) -> str:
        return self._chain.wanted

    def __call__(self) -> None:
        pass


class Chain:
    """One learner's parts, and hands that do what the feeder, the generators and the scorers do."""

    def __init__(self, run: Run, link: RedisLink, keys: Keys) -> None:
        self.run = run
        self.link = link
        self.keys = keys
        self.client: Any = link.client
        self.run_owner = RunOwner(link, keys)
        self.stop = threading.Event()
        self.said: list[str] = []
        fence = self.run_owner.claim(0)
        self.journal = Journal(run.folder / "journal", fence, run=run.name)
        self.elapsed = 0.0  # seconds that pass for the learner alone
        self.claimed = Claimed(
            run=run,
            run_owner=self.run_owner,
            journal=self.journal,
            version=PolicyVersion(),
            stop=self.stop,
            beat=SimpleNamespace(set_state=self.said.append, meter=WorkMeter()),
            clock=self.clock,
        )
        self.version = self.claimed.version
        self.wanted = ""  # by an operator
        self.told_lost: list[float] = []  # seconds in which nobody could work, at each look
        self.arrivals = ArrivalCounter()
        self.advice: list[str] = []
        self.filters = Filters(run.learner, self.arrivals, advise=self.advice.append)
        self.publisher: Publisher | None = None  # of a trainer on it
        self.take_in(vocabulary=100)
        self.announce(len(self.journal.ledger.steps))

    def take_in(self, **options: Any) -> None:
        """Take in what returns by a new intake, with options of `make_intake`."""
        self.intake = make_intake(
            self.claimed, make_held_out(self.run), self.filters, self.arrivals, **options
        )
        self.buffer, self.outcomes = self.intake.buffer, self.intake.outcomes
        self.evaluation = self.intake.evaluation
        self.reconciliation = Reconciliation(
            self.intake, WorkingTime(self.run_owner, self.clock), tell_lost=self.told_lost.append
        )
        self.selection = Selection(
            self.intake, self.reconciliation, NoDuties(self), self.stop, self.claimed.beat, clock=self.clock
        )

    def clock(self) -> float:
        """Return seconds that never jump, but when `elapsed` is raised."""
        return time.monotonic() + self.elapsed

    def announce(self, version: int) -> None:
        self.version.trained = self.version.announced = version
        new = Announcement(version=version, path="p", checksum="c", size_bytes=1, announced_at=0.0)
        self.run_owner.announce(new)

    def issue(self, count: int = 1, *, n: int = 2, issued_at: float | None = None) -> list[str]:
        """Let the next `count` groups of `n` in; their floor is the newest version announced. Returns their ids."""
        position = int(self.client.hget(self.keys("cursor"), "position") or 0)
        ids = [str(position + i) for i in range(count)]
        prompts = (make_prompt(group_id, n=n, issued_at=issued_at) for group_id in ids)
        groups = [NewGroup(prompt.group_id, codec.encode_prompt(prompt)) for prompt in prompts]
        issued = self.run_owner.issue(position, position + count, 1000, 0, groups)
        assert issued.floor is not None
        return ids

    def issue_eval(self, version: int, count: int) -> list[str]:
        """Ask for a round of `count` prompts."""
        ids = [f"eval-{version}-{i}" for i in range(count)]
        groups = [NewGroup(group_id, codec.encode_prompt(make_prompt(group_id))) for group_id in ids]
        self.run_owner.issue_eval(version, groups)
        self.version.trained = max(self.version.trained, version)
        self.evaluation.rounds.begin(version, ids)
        return ids

    def entry(self, group_id: str) -> Entry:
        stream, entry_id = self.client.hget(self.keys("where"), group_id).decode().split()
        ((_, fields),) = self.client.xrange(self.keys(stream), entry_id, entry_id)
        return Entry(stream, entry_id, fields)

    def sample(self, group_id: str, *, generator: str = "g") -> None:
        entry = self.entry(group_id)
        assert entry.stream == PROMPTS
        prompt = codec.decode_prompt(entry.raw)
        rollout = make_scored(prompt, [0.0] * prompt.n, generator=generator).rollout
        assert hand_over(self.link, self.keys, entry, ROLLOUTS, codec.encode_rollout(rollout))

    def score(self, group_id: str, rewards: Sequence[float | None] = (1.0, 0.0), **changes: bytes) -> None:
        """Do a generator's and a scorer's part. `changes` replace fields of the entry."""
        if self.entry(group_id).stream == PROMPTS:
            self.sample(group_id)
        entry = self.entry(group_id)
        rollout = codec.decode_rollout(entry.raw)
        scored = make_scored(rollout.prompt, rewards, generator=rollout.generator)
        fields = codec.encode_scored(scored) | changes
        assert hand_over(self.link, self.keys, entry, SCORED, fields)

    def read(self) -> None:
        """Take in all that is there."""
        while self.intake.read(block_s=0.001):
            pass

    @property
    def slots(self) -> set[str]:
        return {group_id.decode() for group_id in self.client.zrange(self.keys("slots"), 0, -1)}

    def depth(self, stream: str) -> int:
        return int(self.client.xlen(self.keys(stream)))


class OneToken:
    """A tokenizer for which every chat is one token."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], **options: Any) -> list[int]:
        return [7]


def make_source(run: Run) -> PromptSource:
    """Ten prompts in their order."""
    info = {"type": "math", "answer": {"value": "5"}}
    messages = [({"role": "user", "content": f"{i}"},) for i in range(10)]
    rows = [Row(messages=chat, task="math", verification_info=info) for chat in messages]
    tokenizer: Any = OneToken()
    return PromptSource(run, [PromptRows.of_rows(rows)], "f", tokenizer, shuffle=False)


def make_held_out(run: Run) -> HeldOut:
    """The ten prompts as the one held-out set."""
    source = make_source(run)
    sampling = Sampling(
        n=run.evaluation.samples, temperature=run.evaluation.temperature, max_tokens=run.sampling.max_tokens
    )
    prompts = min(run.evaluation.prompts, len(source))
    every = run.evaluation.every
    return HeldOut(run, [HeldOutSet(name="", source=source, every=every, prompts=prompts, sampling=sampling)])


class TextWeights:
    """Gathered weights that are a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def save_weights(self, folder: Path) -> SavedWeights:
        (folder / FILE).write_text(self.text)
        return SavedWeights.of(folder)


class FilePolicy:
    """A policy whose weights are the number of steps that it has done."""

    vocabulary = 100
    pads = False

    def __init__(self) -> None:
        self.steps = 0

    def step(self, batch: Batch, settings: LearnerConfig | None = None) -> dict[str, float]:
        self.steps += 1
        return {"loss": 0.0, "tokens": float(batch.loss_mask.sum()), "entropy": 0.5, "seconds": 0.1}

    def differences(self, batch: Batch) -> Differences:
        return no_differences(batch)

    def gather_weights(self) -> TextWeights:
        return TextWeights(f"weights {self.steps}")

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        folder.mkdir(parents=True)
        fits = {"ranks": 1, "zero_stage": 1, "dtype": "bfloat16"}  # of `make_run`
        (folder / "state.json").write_text(json.dumps({"fits": fits, "state": state}))

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())["state"]
        self.steps = state["version"]
        return state

    def save_model(self, folder: Path) -> None:
        folder.mkdir(parents=True)

    def close(self) -> None:
        """There is nothing to let go of."""
