"""Decide which changes of a run's configuration are allowed when the run continues.

In: the configuration of its last incarnation (YAML) and the new one. Out: a line for each changed key, or RunFailed
with the keys that may not change. Pure; used by the learner at its start. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from pydantic import ValidationError

from broker.errors import RunFailed
from config.loading import run_tree
from config.other_names.renamed_keys import with_current_names
from config.run import Run
from config.yaml_text import EARLIER, read_yaml_text

# Key or section -> why it may never change. All other keys take effect with the new incarnation.
FIXED = {
    "name": "it is in every key, file and group",
    "seed": "it is the order of the data",
    "model": "the weights, the journal's tokens and the checkpoints are this model's",
    "data": "it is what the groups' numbers stand for",
    "sampling.temperature": "groups in flight were sampled with the old one, and log-probabilities are taken with one",
    "sampling.top_p": "groups in flight were sampled with the old one",
    "sampling.top_k": "groups in flight were sampled with the old one",
    "learner.sequence_ranks": "the journal's steps are trained again as they were, to the bit",
    "learner.shard_bytes": "the checksums of versions in the journal are those of files that were cut so",
    "learner.lora": "a checkpoint holds adapters of this rank, and no others",
    "learner.zero": "a checkpoint's parts are those of its partitioning",
    "learner.backend": "a checkpoint's parts are those of the backend that wrote them",
}
# Generators and scorers read these when they join; restarting the learner alone does not reach running ones.
READ_ELSEWHERE = ("generators.", "scorers.", "judge.", "broker.", "sampling.max_tokens")
RANKS = "learner.ranks"
# No properties of the run: requests of this start, and where a text was read that is itself in the configuration.
PER_START = frozenset({"learner.resume", "model.chat_template.file"})
# What a value that is null now meant before it could be null, in a run without the tasks that changed it since.
BEFORE_NULL = {"learner.filters.truncated": "mask"}
UNSET = object()
LONGEST = 200  # characters shown of a value, such as a chat template


def check_changes(old_yaml: str, new: Run) -> list[str]:
    """Return a line `key: old -> new` for each changed key that takes effect; none if there is no change.

    Keys that other roles read have a remark: those roles apply them at their next start. Unchanged are a key that the
    previous incarnation did not know and that has its default now: a newer version of this program has added it; a null
    key that a newer version has removed; and a key that is null now and means the same as before.

    Args:
        old_yaml: `config.loading.to_yaml` of the previous incarnation; keys unknown to this version are compared like
            others.
        new: the configuration of this incarnation.
    Raises:
        RunFailed: a key changed that may not; the message names all such keys, each with the reason.
    """
    before = dict(_leaves(with_current_names(read_yaml_text(old_yaml, EARLIER))))
    after = dict(_leaves(run_tree(new)))
    before = {key: value for key, value in before.items() if value is not None or key in after}
    before = _defaults(new, without=after.keys() - before.keys()) | before
    if not new.has_agents:
        before |= {
            key: None
            for key, value in BEFORE_NULL.items()
            if after.get(key, UNSET) is None and before.get(key) == value
        }
    changed = [
        key
        for key in {**after, **before}
        if key not in PER_START and before.get(key, UNSET) != after.get(key, UNSET)
    ]
    lines = {
        key: f"{key}: {_show(before.get(key, UNSET))} -> {_show(after.get(key, UNSET))}{_remark(key)}"
        for key in changed
    }
    refused = [f"{lines[key]} ({reason})" for key in changed if (reason := _reason(key, new)) is not None]
    if refused:
        raise RunFailed(
            f"run {new.name} can't go on with these changes: {'; '.join(refused)}. Set them back, or begin "
            "a run of another name (learner.resume=A CHECKPOINT'S FOLDER begins it with these weights)"
        )
    return list(lines.values())


def _defaults(new: Run, *, without: AbstractSet[str]) -> dict[str, Any]:
    """Return the defaults of these keys, without required keys."""
    tree = run_tree(new)
    for key in without:
        *sections, last = key.split(".")
        inner = tree
        for section in sections:
            inner = inner[section]
        del inner[last]
    try:
        found = dict(_leaves(run_tree(Run.model_validate(tree))))
    except ValidationError:  # a section of another kind, for example
        return {}
    return {key: found[key] for key in without if key in found}


def _remark(key: str) -> str:
    return (
        " (generators and scorers that run now keep the old value until they are started again)"
        if key.startswith(READ_ELSEWHERE)
        else ""
    )


def _reason(key: str, new: Run) -> str | None:
    """Return why this key may not change; None if it may."""
    if key == RANKS and new.learner.zero.stage != 0:
        return (
            f"with learner.zero.stage={new.learner.zero.stage} the optimizer's state is split among them, and "
            f"DeepSpeed loads it with as many; `millrace drain` writes {new.folder / 'model'}, with which a run of "
            "any number of them can begin, as model.path="
        )
    parts = key.split(".")
    return next(
        (FIXED[".".join(parts[:n])] for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in FIXED), None
    )


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every value of nested sections by its dotted key; a list is one value."""
    if isinstance(tree, dict) and (tree or not path):
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    else:
        yield ".".join(path), tree


def _show(value: Any) -> str:
    if value is UNSET:
        return "(not there)"
    text = "null" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]!r}... ({len(text)} characters)"
