"""Journals, checkpoints and streams that older commits left are read by this version, and their runs go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from transformers import AutoModelForCausalLM, AutoTokenizer

from broker import codec
from broker.checksums import file_checksum
from broker.connection import RedisLink
from broker.group_ids import is_training
from broker.keys import DEAD, PROMPTS, ROLLOUTS, SCORED, Keys
from broker.messages import Prompt, SampledGroup, ScoredGroup
from broker.protocol.leases import Consumer
from broker.protocol.run_owner import RunOwner
from broker.protocol.streams import Entry, entries_of
from config.loading import from_yaml
from learner.journal.ledger import read_ledger, read_step
from learner.training.checkpoint import Checkpoints, read_progress
from learner.training.model_files import names_on_disk, write_safetensors
from tests.support.chain import make_scored
from tests.support.forked_roles import forked_roles
from tests.support.old_files import NAME, restore, unpack
from tools.audit.command import audit

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Left:
    """What a commit left, in an archive of its own."""

    commit: str
    steps: int  # in the journal
    checkpoint: int  # of this version
    announced: int  # the newest version in Redis


# The first wrote schema 1 of the wire, the second schema 2.
LEFT = (Left("92978da", 12, 9, 12), Left("6e27d495", 17, 15, 16))
KEYS = Keys(NAME)
DECODERS: dict[str, Callable[[codec.Raw], Any]] = {
    PROMPTS: codec.decode_prompt,
    ROLLOUTS: codec.decode_rollout,
    SCORED: codec.decode_scored,
}


@pytest.fixture(params=LEFT, ids=lambda left: left.commit)
def left(request: pytest.FixtureRequest) -> Left:
    found: Left = request.param
    return found


@pytest.fixture
def folder(tmp_path: Path, left: Left) -> Path:
    """Return what the run was started from, and what is left of it."""
    unpack(tmp_path, left.commit)
    return tmp_path


@pytest.fixture
def old(folder: Path, link: RedisLink) -> RedisLink:
    restore(link.client, folder)
    return link


def entries(link: RedisLink, stream: str) -> list[Entry]:
    return entries_of(stream, link(lambda client: client.xrange(KEYS(stream))))


def test_the_ledger_is_whole_and_every_payload_is_read_with_what_it_trained_on(
    folder: Path, left: Left
) -> None:
    journal = folder / "runs" / NAME / "journal"
    ledger = read_ledger(journal)
    assert not ledger.problems
    assert [incarnation["fence"] for incarnation in ledger.incarnations] == [1, 2, 3]
    assert [record["step"] for record in ledger.steps] == list(range(left.steps))
    kinds = Counter(outcome.kind for group_id, outcome in ledger.outcomes.items() if is_training(group_id))
    assert kinds["trained"] == 2 * left.steps
    assert min(kinds["dead"], kinds["dropped"]) >= 3
    for incarnation in ledger.incarnations:
        assert from_yaml(incarnation["config"]).learner.groups_per_step == 2
    for record in ledger.steps:
        groups, advantages = read_step(journal, record)
        assert [group.group_id for group in groups] == record["ids"]
        assert sum(group.rollout.num_tokens for group in groups) == record["tokens"]
        for group, row in zip(groups, advantages, strict=True):
            assert len(row) == len(group.rollout.completions) == group.rollout.prompt.n == 4
            assert group.rollout.prompt.messages[0]["content"].startswith("row ")
            assert group.rollout.max_version <= record["step"]
            for completion in group.rollout.completions:
                assert (completion.segments[0].logprobs < 0).all()
                assert 0 < len(completion.segments[0].token_ids) <= 8


def test_every_entry_is_decoded(old: RedisLink, left: Left) -> None:
    for stream, decode in DECODERS.items():
        found = entries(old, stream)
        assert found
        for entry in found:
            message = decode(entry.raw)
            rollout = message.rollout if stream == SCORED else message
            prompt = message if stream == PROMPTS else rollout.prompt
            assert (prompt.group_id, prompt.floor, prompt.task) == (entry.group_id, entry.floor, "picky")
    for entry in entries(old, DEAD):
        dead_letter = codec.decode_dead(entry.raw)
        assert (dead_letter.stage, dead_letter.reason) == (ROLLOUTS, "this row is made to die")
        assert codec.unpack(dead_letter.original, SampledGroup).prompt.group_id == dead_letter.group_id
    weights: Any = old.client.xrange(KEYS("weights"))
    announced = [codec.decode_announcement(raw) for _, raw in weights]
    assert announced[-1].version == left.announced


def _scored(prompt: Prompt) -> ScoredGroup:
    return make_scored(prompt, [1.0] * prompt.n, generator="new")


def test_old_entries_are_leased_and_handed_over_and_their_results_are_read(old: RedisLink) -> None:
    before = Counter(entry.group_id for stream in DECODERS for entry in entries(old, stream))
    consumer = Consumer(old, KEYS, PROMPTS, "g", lease_s=60)
    for entry in consumer.lease(100, block_s=0.1):
        rollout = _scored(codec.decode_prompt(entry.raw)).rollout
        assert consumer.hand_over(entry, ROLLOUTS, codec.encode_rollout(rollout))
    consumer = Consumer(old, KEYS, ROLLOUTS, "s", lease_s=60)
    for entry in consumer.lease(100, block_s=0.1):
        rollout = codec.decode_rollout(entry.raw)
        group = replace(_scored(rollout.prompt), rollout=rollout, worker="new")
        assert consumer.hand_over(entry, SCORED, codec.encode_scored(group))
    assert entries(old, PROMPTS) == entries(old, ROLLOUTS) == []
    scored = [codec.decode_scored(entry.raw) for entry in entries(old, SCORED)]
    assert Counter(group.group_id for group in scored) == before
    assert {group.worker == "new" for group in scored} == {True, False}


def test_nothing_is_lost_or_twice_and_a_learner_claims_the_run_and_retires_what_was_left(
    old: RedisLink, folder: Path, left: Left
) -> None:
    journal = folder / "runs" / NAME / "journal"
    found = audit(old, KEYS, journal)
    assert (found.is_clean, found.trained) == (True, 2 * left.steps)
    ledger = read_ledger(journal)
    owner = RunOwner(old, KEYS)
    assert owner.claim(max(incarnation["fence"] for incarnation in ledger.incarnations)) == 4
    in_flight: Any = old.client.zrange(KEYS("slots"), 0, -1)
    slots = {name.decode() for name in in_flight}
    owner.retire(slots)
    assert not old.client.exists(KEYS("slots"))
    assert audit(old, KEYS, journal).lost == len(slots - set(ledger.outcomes))


def test_the_checkpoint_stands_as_it_was(folder: Path, left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    run = from_yaml((folder / "runs" / NAME / "config.yaml").read_text(encoding="utf-8"))
    newest = Checkpoints(run).newest_good(ledger=read_ledger(run.folder / "journal"))
    assert newest is not None
    progress = read_progress(newest)
    assert (newest.name, progress.version) == (f"step-{left.checkpoint:06d}", left.checkpoint)
    assert progress.fence in {2, 3}


def _variables(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([*filter(None, sys.path), str(folder)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def _millrace(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    how: Any = {"cwd": folder, "env": _variables(folder), "capture_output": True, "text": True}
    return subprocess.run(
        [sys.executable, "-m", "tools.main", *map(str, words)], check=False, timeout=200, **how
    )


@pytest.mark.prove
def test_every_step_is_trained_again_offline(folder: Path, left: Left) -> None:
    """Another machine than the one that made the files may round differently: nothing may be missing."""
    done = _millrace(folder, "replay", NAME)
    assert f"steps {left.steps}: " in done.stdout, done.stdout + done.stderr
    assert "missing 0" in done.stdout, done.stdout


@pytest.mark.prove
def test_a_version_that_only_its_journal_has_is_exported(folder: Path, left: Left) -> None:
    """The version before the last step's lies behind the checkpoint, and its published file is gone."""
    version = left.steps - 1
    for file in (folder / "runs" / NAME / "weights").rglob("*.safetensors"):
        file.unlink()
    done = _millrace(folder, "export", NAME, "--version", version, "-o", "exported")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"version {version}, from " in done.stdout
    assert f"version {version} of {NAME}: exported" in done.stdout
    model: Any = AutoModelForCausalLM.from_pretrained(folder / "exported")
    assert AutoTokenizer.from_pretrained(folder / "exported").chat_template
    if ": ok," in done.stdout:  # this machine rounds as the first one did
        write_safetensors(names_on_disk(model, dict(model.named_parameters())), folder / "again")
        recorded = read_ledger(folder / "runs" / NAME / "journal").steps[version].get("weights")
        assert recorded in {None, file_checksum(folder / "again")}
    refused = _millrace(folder, "export", NAME, "--version", version, "-o", "exported")
    assert refused.returncode == 2
    assert "exported: exists and is not an empty folder" in refused.stderr


@pytest.mark.prove
def test_a_run_goes_on_from_checkpoint_journal_and_streams(folder: Path, old: RedisLink, left: Left) -> None:
    with forked_roles(folder, _variables(folder, REDIS_URL=old.url)) as roles:
        roles.start(
            "learner.__main__", "--config", "run.yaml", f"learner.steps={left.steps + 3}", name="learner"
        )
        roles.start("generators.__main__", "--run", NAME, name="generator")
        for part in ("dispatcher", "worker"):
            roles.start("scorers.__main__", "--run", NAME, "--part", part, name=part)
        roles.wait("learner", 200)
        log = roles.logged("learner")
    begins = f"going_on checkpoint=runs/{NAME}/checkpoints/step-{left.checkpoint:06d}"
    assert f"{begins} steps_in_journal={left.steps}" in log, log
    again = left.steps - left.checkpoint
    assert f"replayed steps={again} from={left.checkpoint} to={left.steps}" in log
    found = audit(old, KEYS, folder / "runs" / NAME / "journal")
    assert (found.is_clean, found.trained) == (True, 2 * (left.steps + 3))
    metrics = (folder / "runs" / NAME / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(metrics[-1])["step"] == left.steps + 3
