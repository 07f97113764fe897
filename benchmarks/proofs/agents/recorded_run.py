"""`python -m benchmarks.proofs.agents.recorded_run FILE CONFIG`: `millrace up` whose generators keep a record.

In: a file for the record, and a configuration. Out: the run's folder, and the record: what each call was given, and the
ids and log-probabilities that the engine returned, each written before anybody else has seen it. With `--generator`
behind FILE this is such a generator. Nothing else of the run is other than `millrace up` has it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np

from broker.messages import Ids, Logprobs
from generators.engine import Engine, Sample, SamplingParams

GENERATOR = "--generator"


class Sampled(NamedTuple):
    """One sample as its engine returned it."""

    given: bytes  # ids, of 4 bytes each
    ids: bytes
    logprobs: bytes

    @classmethod
    def of(cls, given: Ids, ids: Ids, logprobs: Logprobs) -> Sampled:
        """Take the bytes of arrays."""
        return cls(
            np.asarray(given, "<i4").tobytes(),
            np.asarray(ids, "<i4").tobytes(),
            np.asarray(logprobs, "<f4").tobytes(),
        )

    def begins_with(self, turn: Sampled) -> bool:
        """Return whether a turn is the beginning of this sample."""
        return (
            self.given == turn.given
            and self.ids.startswith(turn.ids)
            and self.logprobs.startswith(turn.logprobs)
        )


def read_record(file: Path) -> list[Sampled]:
    """Read all that was written down; what a kill cut short counts for nothing."""
    unpacker = msgpack.Unpacker(raw=True)
    unpacker.feed(file.read_bytes() if file.exists() else b"")
    return [Sampled(*one) for one in unpacker]


class RecordedEngine:
    """An engine that writes down what it samples."""

    def __init__(self, engine: Engine, file: Path) -> None:
        self._engine, self._file = engine, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, token_ids: Ids, params: SamplingParams, n: int) -> tuple[Sample, ...]:
        """Sample, and write it down."""
        samples = await self._engine.generate(token_ids, params, n)
        with self._file.open("ab") as stream:
            for one in samples:
                stream.write(msgpack.packb(list(Sampled.of(token_ids, one.token_ids, one.logprobs))))
        return samples


def generate(file: Path, words: Sequence[str]) -> int:
    """Be a generator, with an engine that writes down what it samples."""
    from generators import __main__ as generator
    from generators.engines import build

    built = build.build_engine
    build.build_engine = lambda run: RecordedEngine(built(run), file)  # the one seam that `main` asks
    return generator.main(list(words))


def run(file: Path, config: str) -> int:
    """Run a configuration to its end, and return its exit code."""
    from config.loading import load_run
    from tools.up.console import PlainConsole
    from tools.up.local_run import start
    from tools.up.role_commands import commands

    words = ["--config", config]
    wanted = load_run(words)
    recorded = (sys.executable, "-m", "benchmarks.proofs.agents.recorded_run", str(file), GENERATOR)
    plan = [
        replace(one, args=(*recorded, *one.args[3:])) if one.role.startswith("generator") else one
        for one in commands(wanted, words)
    ]
    return start(wanted, plan, PlainConsole()).code


def main(argv: Sequence[str]) -> int:
    """Run, or be one of the run's generators."""
    file, *words = argv
    if words[0] == GENERATOR:
        return generate(Path(file), words[1:])
    return run(Path(file), words[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
