"""What of a run's configuration may change while it goes on: every key of it is in one of two tables here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from broker.errors import RunFailed
from config.loading import to_yaml
from config.run import Run
from learner.resume.config_changes import check_changes

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

BASE: dict[str, Any] = {
    "name": "test",
    "runs_dir": "runs",
    "model": {"path": "tiny", "dtype": "float32"},
    "data": {"train": {"type": "procedural"}, "held_out": {"type": "procedural", "split": "eval"}},
    "generators": {"engine": {"type": "hf"}},
    "learner": {"zero": {"stage": 0}, "objective": {"dual_clip": 3.0}},
}


def run_with(key: str = "", value: Any = None) -> Run:
    """Return the run with one key of another value."""
    tree = Run.model_validate(BASE).model_dump(mode="json")
    if key:
        inner, last = place_of(key, tree)
        inner[last] = value
    return Run.model_validate(tree)


def place_of(key: str, tree: Any) -> tuple[Any, str]:
    """Return the section that holds a key, and the key's own name."""
    *sections, last = key.split(".")
    for section in sections:
        tree = tree[section]
    return tree, last


def without(key: str) -> str:
    """Return the run's stored configuration as a program wrote it that did not know this key."""
    tree = yaml.safe_load(to_yaml(run_with()))
    inner, last = place_of(key, tree)
    del inner[last]
    return yaml.safe_dump(tree)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("learner.optimizer.lr", 2e-6, "learner.optimizer.lr: 1e-06 -> 2e-06"),
        ("learner.optimizer.betas", [0.9, 0.99], "learner.optimizer.betas: [0.9, 0.95] -> [0.9, 0.99]"),
        ("learner.optimizer.grad_clip", 0.5, "learner.optimizer.grad_clip: 1.0 -> 0.5"),
        ("learner.objective.dual_clip", None, "learner.objective.dual_clip: 3.0 -> null"),
        ("learner.advantage.scale", "std", "learner.advantage.scale: none -> std"),
        ("learner.filters.truncated", "keep", "learner.filters.truncated: null -> keep"),
        ("learner.steps", 7, "learner.steps: 100 -> 7"),
        ("learner.groups_per_step", 8, "learner.groups_per_step: 64 -> 8"),
        ("learner.max_lag", 0, "learner.max_lag: 4 -> 0"),
        ("learner.late_groups", "train", "learner.late_groups: wait -> train"),
        ("learner.groups_in_flight", 70, "learner.groups_in_flight: null -> 70"),
        ("learner.group_deadline_s", 5.0, "learner.group_deadline_s: 300.0 -> 5.0"),
        ("learner.tokens_per_micro_batch", 64, "learner.tokens_per_micro_batch: 16384 -> 64"),
        ("learner.threads", 1, "learner.threads: null -> 1"),
        ("learner.ranks", 2, "learner.ranks: 1 -> 2"),
        ("learner.checkpoint.keep", 5, "learner.checkpoint.keep: 2 -> 5"),
        ("learner.journal.keep_days", 3.0, "learner.journal.keep_days: null -> 3.0"),
        ("sampling.max_tokens", 9, "sampling.max_tokens: 1024 -> 9"),
        ("sampling.group_size", 4, "sampling.group_size: 8 -> 4"),
        ("evaluation.every", 5, "evaluation.every: 0 -> 5"),
        ("generators.count", 3, "generators.count: 1 -> 3"),
        ("scorers.credit", "all", "scorers.credit: "),
        ("broker.lease_s", 5.0, "broker.lease_s: 60.0 -> 5.0"),
        ("runs_dir", "elsewhere", "runs_dir: runs -> elsewhere"),
    ],
)
def test_what_takes_effect_is_listed(key: str, value: Any, line: str) -> None:
    changes = check_changes(to_yaml(run_with()), run_with(key, value))
    assert len(changes) == 1
    assert changes[0].startswith(line)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "other"),
        ("seed", 1),
        ("model.path", "other"),
        ("model.dtype", "bfloat16"),
        ("model.revision", "abc"),
        ("data.train.size", 5),
        ("data.shuffle", False),
        ("data.max_prompt_tokens", 5),
        ("data.held_out.size", 5),
        ("sampling.temperature", 0.5),
        ("learner.zero.stage", 1),
        ("learner.zero.offload_optimizer", True),
        ("learner.backend", {"type": "custom", "import_path": "own:Backend"}),
    ],
)
def test_what_cannot_change_is_refused_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(RunFailed, match=rf"can't go on with these changes: {key}(\.type)?: .* -> "):
        check_changes(to_yaml(run_with()), run_with(key, value))


def test_all_that_cannot_change_is_named_at_once_and_an_old_name_is_no_change() -> None:
    new = run_with("seed", 5).model_copy(update={"name": "other"})
    with pytest.raises(RunFailed, match=r"name: test -> other \(.*\); seed: 0 -> 5 \(.*\)\. Set them back"):
        check_changes(to_yaml(run_with()), new)
    run = Run.model_validate(BASE)
    stored = to_yaml(run).replace("tokens_per_micro_batch", "tokens_per_row")
    assert stored != to_yaml(run)
    assert check_changes(stored, run) == []


LAKE = {"scorer": {"type": "environment"}, "environment": {"type": "custom", "import_path": "lake:Lake"}}


@pytest.mark.parametrize(
    ("tasks", "before", "changes"),
    [
        ({"math": {}}, "mask", []),
        ({"math": {}}, "keep", ["learner.filters.truncated: keep -> null"]),
        ({"lake": LAKE}, "mask", ["learner.filters.truncated: mask -> null"]),
    ],
    ids=["as it was", "another", "another for episodes"],
)
def test_what_truncated_was_before_it_could_be_unset_has_changed_only_for_episodes(
    tasks: dict[str, Any], before: str, changes: list[str]
) -> None:
    unset = Run.model_validate({**BASE, "scorers": {"tasks": tasks}})
    stored = to_yaml(unset).replace("truncated: null", f"truncated: {before}")
    assert check_changes(stored, unset) == changes


@pytest.mark.parametrize(("value", "lines"), [("null", 0), ("{type: gloo}", 1)])
def test_a_key_that_was_taken_out_has_changed_only_where_it_was_set(value: str, lines: int) -> None:
    stored = to_yaml(run_with()).replace("  weights:\n", f"  weights:\n    direct: {value}\n", 1)
    assert "direct:" in stored
    assert len(check_changes(stored, run_with())) == lines


UNKNOWN_BEFORE: tuple[str, ...] = (
    "data.max_prompt_tokens",
    "model.revision",
    "learner.zero.offload_optimizer",
    "sampling.top_k",
)
UNKNOWN_BEFORE += ("scorers.credit", "learner.objective.type", "learner.backend", "learner.weights.type")
UNKNOWN_BEFORE += ("learner.loggers", "learner.max_skipped_steps")


def test_another_kind_shows_all_its_keys_and_a_new_key_has_changed_from_its_default() -> None:
    changes = check_changes(to_yaml(run_with()), run_with("generators.engine", {"type": "fake"}))
    said = [change.partition(" (generators and")[0] for change in changes]
    assert "generators.engine.type: hf -> fake" in said
    assert "generators.engine.batch_groups: 16 -> (not there)" in said
    for key in UNKNOWN_BEFORE:
        assert check_changes(without(key), run_with()) == [], key
    default = run_with().data.max_prompt_tokens
    with pytest.raises(RunFailed, match=rf"data\.max_prompt_tokens: {default} -> 5 "):
        check_changes(without("data.max_prompt_tokens"), run_with("data.max_prompt_tokens", 5))


@pytest.mark.parametrize(
    ("key", "value"), [("learner.resume", "/a/folder"), ("broker.url", "redis://:hunter22@here")]
)
def test_what_one_start_is_asked_to_do_and_secrets_are_in_no_line(key: str, value: str) -> None:
    assert check_changes(to_yaml(run_with()), run_with(key, value)) == []


@pytest.mark.parametrize(
    ("key", "value", "is_remarked"),
    [
        ("generators.groups_in_flight", 3, True),
        ("scorers.credit", "all", True),
        ("broker.lease_s", 5.0, True),
        ("sampling.max_tokens", 9, True),
        ("sampling.group_size", 4, False),
        ("learner.max_lag", 0, False),
        ("evaluation.every", 5, False),
    ],
)
def test_a_change_of_other_roles_says_when_they_take_it(key: str, value: Any, is_remarked: bool) -> None:
    (change,) = check_changes(to_yaml(run_with()), run_with(key, value))
    remark = " (generators and scorers that run now keep the old value until they are started again)"
    assert change.endswith(remark) == is_remarked


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_number_of_ranks_stays_where_the_optimizer_is_split_among_them(stage: int) -> None:
    one = run_with("learner.zero.stage", stage)
    two = one.model_copy(update={"learner": one.learner.model_copy(update={"ranks": 2})})
    with pytest.raises(RunFailed, match=rf"learner\.ranks: 1 -> 2 \(with learner\.zero\.stage={stage}"):
        check_changes(to_yaml(one), two)
