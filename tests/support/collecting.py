"""A collector with everything real but the tokenizer, the generators and the scorers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from broker import codec
from broker.connection import RedisLink
from broker.keys import PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import Prompt
from broker.protocol.streams import dead_letter_entry, entries_of, hand_over
from config.run import Run
from learner.collect.results import Results, open_results
from learner.collect.session import CollectingSession
from tests.support.chain import OneToken, make_run, make_scored

ROWS = 8
Answer = Callable[[Prompt], Sequence[float | None] | str]  # scores, or why no scorer could judge the group


class Killed(BaseException):
    """A kill -9 at a line of the collector."""


class OneTokenSession(CollectingSession):
    """A session whose tokenizer is `OneToken`."""

    def _tokenizer(self) -> Any:
        return OneToken()


class Hands(threading.Thread):
    """Does what generators and scorers do with every group."""

    def __init__(self, link: RedisLink, keys: Keys, answer: Answer) -> None:
        super().__init__(daemon=True)
        self.link = link
        self.keys = keys
        self.answer = answer
        self.sampled: list[str] = []  # ids, in order
        self.is_asked_to_end = threading.Event()

    def run(self) -> None:
        while not self.is_asked_to_end.wait(0.005):
            for entry in self._entries(PROMPTS):
                prompt = codec.decode_prompt(entry.raw)
                group = make_scored(prompt, [0.0] * prompt.n)
                if hand_over(self.link, self.keys, entry, ROLLOUTS, codec.encode_rollout(group.rollout)):
                    self.sampled.append(prompt.group_id)
            for entry in self._entries(ROLLOUTS):
                rollout = codec.decode_rollout(entry.raw)
                answer = self.answer(rollout.prompt)
                if isinstance(answer, str):
                    dead_letter_entry(self.link, self.keys, entry, reason=answer)
                else:
                    group = make_scored(rollout.prompt, answer)
                    hand_over(self.link, self.keys, entry, SCORED, codec.encode_scored(group))

    def _entries(self, stream: str) -> Any:
        client: Any = self.link.client
        return entries_of(stream, client.xrange(self.keys(stream)))


@contextlib.contextmanager
def working(link: RedisLink, keys: Keys, answer: Answer) -> Iterator[Hands]:
    hands = Hands(link, keys, answer)
    hands.start()
    try:
        yield hands
    finally:
        hands.is_asked_to_end.set()
        hands.join(10)


def make_collected_run(folder: Path, **sections: Any) -> Run:
    """Return a run of ROWS rows in groups of two, at most four of them in flight, with a model of a few bytes."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "model.safetensors").write_bytes(b"weights")
    data = {"train": {"type": "procedural", "size": ROWS}, "cache_dir": str(folder / "cache")}
    return make_run(folder / "runs", **({"model": {"path": str(model)}, "data": data} | sections))


def collect(run: Run, link: RedisLink, stop: threading.Event | None = None) -> int:
    """Collect in this thread; returns the exit code."""
    session = OneTokenSession(run, link, "train")
    session.open()
    return session.collect(stop or threading.Event())


def results_of(run: Run) -> Results:
    return open_results(run.folder)
