"""`millrace evaluate --endpoint URL`: let a model behind an address answer held-out rows, scored like the policy's.

In: a configuration whose `data.held_out` names the sets, and the address. Out: an `EvaluationResult`, as from an
evaluation of the policy. Environments, agents that own their loop, their gateway and the scorers are a run's
(`tools.agent.outside_play`); a row without an environment is answered in one turn. Each row is stored when it is
scored, with its messages, so the same command continues after an interruption. A server that does not answer ends the
evaluation without affecting any score.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from msgspec.structs import replace
from pydantic import SecretStr

from agents.environments.runner import Environments
from agents.gateway.server import gateway_of
from broker.errors import PipelineError, RunFailed
from broker.messages import Prompt
from config.loading import to_yaml
from config.run import Run
from config.versions import versions
from learner.collect.rows import Rows, open_rows
from learner.collect.settings import collecting
from learner.data.prompts import load_tokenizer
from scorers.child.frames import Result as Scored
from scorers.rows.row_workers import RowWorkers
from tools.agent.outside import OutsideModel
from tools.agent.outside_play import ScoredPlay, play_one, scored_as, scoring_line
from tools.evaluate.results import EvaluatedRow, EvaluationResult, digest_of, row_from
from tools.runs.folder import held

FILE: Final = "played.jsonl"  # in the evaluation's folder: one row per line, with its messages
SAY_EVERY_S: Final = 10.0


class NotAnswered(PipelineError):
    """The endpoint did not answer; scored rows are stored."""


def evaluated(run: Run, url: str, *, model: str | None, key: SecretStr | None) -> EvaluationResult:
    """Return the result of the model's answers to all rows, answering those without one.

    Raises:
        NotAnswered: the endpoint is away, or refuses; the same command continues.
        PipelineError: rows or scorers are unavailable.
    """
    rows = open_rows(collecting(run), "held_out", load_tokenizer(run))
    with held(run.folder):
        file = run.folder / FILE
        done, before = _read(file, rows.fingerprint)
        name = asyncio.run(_Evaluation(run, rows, file, url, model=model, key=key).play(done, before))
    return EvaluationResult(
        model={"path": name, "revision": None, "weights": None, "endpoint": url},
        sets=rows.facts(),
        rows=[done[ordinal] for ordinal in range(len(rows))],
        config=to_yaml(run),
        packages=versions().splitlines(),
    )


def _read(file: Path, fingerprint: str) -> tuple[dict[int, EvaluatedRow], set[str]]:
    """Return the stored rows, by ordinal, and the models that answered them.

    A line truncated by a kill is removed. Raises RunFailed where they belong to other data.
    """
    found: dict[int, EvaluatedRow] = {}
    models: set[str] = set()
    kept = 0
    for line in file.read_bytes().splitlines(keepends=True) if file.exists() else ():
        try:
            tree = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not line.endswith(b"\n"):
            break
        if tree["fingerprint"] != fingerprint:
            raise RunFailed(
                f"the rows of {file} are not those of data.held_out now, or were sampled otherwise (fingerprint "
                f"{fingerprint}, then {tree['fingerprint']}). Set them back, or give another name: name=..."
            )
        found[tree["ordinal"]] = row_from(tree["row"])
        models.add(tree["model"])
        kept += len(line)
    if file.exists() and kept < file.stat().st_size:
        os.truncate(file, kept)
    return found, models


class _Evaluation:
    """Play the rows without an outcome, `agents.episodes` at once."""

    def __init__(
        self, run: Run, rows: Rows, file: Path, url: str, *, model: str | None, key: SecretStr | None
    ) -> None:
        self._run, self._rows, self._file = run, rows, file
        self._url, self._model, self._key = url, model, key
        self._at_once = asyncio.Semaphore(run.agents.episodes)  # rows
        self._room = asyncio.Semaphore(run.agents.episodes)  # samples
        self._scorers = RowWorkers(run.scorers, run.scorers.workers)
        self._environments, self._gateway = Environments(run), gateway_of(run)
        self._said = time.monotonic()

    async def play(self, done: dict[int, EvaluatedRow], before: set[str]) -> str:
        """Play, and add each row to `done`.

        Args:
            before: names of the models that answered the stored rows.
        Returns:
            The model's name.
        Raises:
            RunFailed: another model answered them.
            NotAnswered, PipelineError: as `evaluated`.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._environments.close)
            stack.push_async_callback(self._gateway.close)
            models = []
            for one in self._rows.sets:
                sampling = one.sampling
                model = OutsideModel(
                    self._url,
                    name=self._model,
                    key=self._key,
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                )
                stack.push_async_callback(model.close)
                await model.open()
                if others := before - {model.name}:
                    raise RunFailed(
                        f"{self._file} has rows that {', '.join(others)} answered, and {model.name} is there now: give "
                        "the evaluation another name, name=..., or name that model by --model"
                    )
                models += [(one.name, model)] * one.prompts
            await self._gateway.start()
            is_interrupted = True
            try:
                with self._file.open("ab") as stream:
                    async with asyncio.TaskGroup() as group:
                        for ordinal, (name, model) in enumerate(models):
                            if ordinal not in done:
                                group.create_task(self._row(ordinal, name, model, done=done, stream=stream))
                is_interrupted = False
            except* PipelineError as several:
                raise several.exceptions[0] from None
            finally:
                await asyncio.to_thread(self._scorers.close, is_interrupted=is_interrupted)
        return models[0][1].name

    async def _row(
        self,
        ordinal: int,
        name: str,
        model: OutsideModel,
        *,
        done: dict[int, EvaluatedRow],
        stream: IO[bytes],
    ) -> None:
        async with self._at_once:
            prompt = self._rows.training_prompt(str(ordinal), first_row=0)
            played = await asyncio.gather(*(self._sample(prompt, k, model) for k in range(prompt.n)))
        done[ordinal] = row = _row_of(name, prompt, played)
        line = {
            "ordinal": ordinal,
            "fingerprint": self._rows.fingerprint,
            "model": model.name,
            "row": asdict(row),
            "episodes": [msgspec.to_builtins(_shown(one)) for one in played],
        }
        stream.write(json.dumps(line).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
        if time.monotonic() - self._said > SAY_EVERY_S or len(done) == len(self._rows):
            self._said = time.monotonic()
            sys.stdout.write(f"evaluated {len(done)} of {len(self._rows)} rows\n")
            sys.stdout.flush()

    async def _sample(self, prompt: Prompt, k: int, model: OutsideModel) -> ScoredPlay:
        """Play a sample, again where its environment or agent failed, and score it."""
        for left in reversed(range(self._run.agents.max_attempts)):
            async with self._room:
                played = await play_one(
                    self._run, prompt, k, environments=self._environments, gateway=self._gateway, model=model
                )
            if played.away is not None:
                raise NotAnswered(f"{played.away}; the same command goes on with the rows that are left")
            if not played.has_failed or not left:
                break
        line = scoring_line(self._run, prompt, played.conversation)
        found: Scored = await asyncio.wrap_future(self._scorers.submit(lambda one: one.result(line)))
        return scored_as(played, found)


def _row_of(name: str, prompt: Prompt, played: Sequence[ScoredPlay]) -> EvaluatedRow:
    """Return the row as in an evaluation of the policy: where all samples begin alike, their start is the problem."""
    openings = [one.opening for one in played if one.conversation.messages]
    if openings and all(one == openings[0] for one in openings):
        prompt = replace(prompt, messages=openings[0])
    return EvaluatedRow(
        set=name,
        row=prompt.row,
        digest=digest_of(prompt),
        source=prompt.data_source,
        scores=tuple(one.score for one in played),
        tokens=tuple(one.sampled for one in played),
        cut=tuple(one.conversation.ended_by.is_cut for one in played),
        reasons=tuple(dict.fromkeys(one.reason for one in played if one.score is None)),
        scorers=tuple(sorted({one.scorer for one in played if one.scorer})),
    )


def _shown(one: ScoredPlay) -> dict[str, Any]:
    return {
        "opening": one.opening,
        "conversation": one.conversation,
        "score": one.score,
        "scorer": one.scorer,
        "reason": one.reason,
        "calls": one.calls,
        "printed": one.printed,
    }
