"""Store the result of an evaluation, row by row, in a file.

In: scored groups, or a file of an earlier evaluation. Out: an `EvaluationResult`, as one JSON object. A result only has
data that another evaluation of the same model with the same seed would reproduce: no times, no names of workers. So an
evaluation that was killed and continued writes the same file. Written and read by `tools.evaluate.command`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from broker.errors import Permanent
from broker.messages import FinishReason, Prompt, ScoredGroup
from learner.journal.disk import replace_text

FORMAT: Final = "millrace evaluation 1"
SETTINGS: Final = ("n", "temperature", "top_p", "max_tokens")  # of a set's sampling


class ResultError(Permanent):
    """A file is no result of an evaluation, or two results can't be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRow:
    """A row of a set with the scores of its samples."""

    set: str  # name of the set
    row: int | None  # index in the set's source; None where nothing was sampled
    digest: str  # of the prompt and its reference: equal rows are one problem; "" where nothing was sampled
    source: str  # the row's `data_source`; "": none
    scores: tuple[float | None, ...]  # one per sample; None: unscorable
    tokens: tuple[int, ...]  # of each sample
    cut: tuple[bool, ...]  # whether each sample was truncated: an answer at max_tokens, an episode at a limit
    reasons: tuple[str, ...] = ()  # distinct reasons why samples were unscorable
    scorers: tuple[str, ...] = ()  # names and versions of the scorers
    min_version: int = 0  # oldest policy version that sampled
    max_version: int = 0  # newest one
    error: str = ""  # why nothing was sampled; "": it was


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """An evaluation."""

    model: Mapping[str, Any]  # path, revision, checksum of the weights
    sets: Sequence[Mapping[str, Any]]  # name, rows, fingerprint of the data, and `SETTINGS`
    rows: Sequence[EvaluatedRow]  # in the order of the sets, and of their rows
    config: str = ""  # YAML, without secrets
    packages: Sequence[str] = field(default_factory=tuple)  # name and version of each relevant package


def row_of(name: str, group: ScoredGroup) -> EvaluatedRow:
    """Return the row of a group of the set `name`."""
    rollout, scores = group.rollout, group.scores
    return EvaluatedRow(
        set=name,
        row=rollout.prompt.row,
        digest=digest_of(rollout.prompt),
        source=rollout.prompt.data_source,
        scores=tuple(score.value for score in scores),
        tokens=tuple(completion.num_sampled for completion in rollout.completions),
        cut=tuple(completion.finish_reason is FinishReason.LENGTH for completion in rollout.completions),
        reasons=tuple(dict.fromkeys(score.reason for score in scores if score.value is None)),
        scorers=tuple(sorted({f"{score.scorer} {score.version}".strip() for score in scores})),
        min_version=rollout.min_version,
        max_version=rollout.max_version,
    )


def unsampled_row(name: str, reason: str) -> EvaluatedRow:
    """Return a row of the set `name` without samples."""
    return EvaluatedRow(set=name, row=None, digest="", source="", scores=(), tokens=(), cut=(), error=reason)


def digest_of(prompt: Prompt) -> str:
    """Return a digest of the question and the reference, independent of the chat template."""
    text = json.dumps([*map(dict, prompt.messages), dict(prompt.verification_info)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def as_tree(result: EvaluationResult) -> dict[str, Any]:
    """Return the object for the file, without its summary."""
    return {
        "format": FORMAT,
        "model": dict(result.model),
        "sets": [dict(each) for each in result.sets],
        "packages": list(result.packages),
        "config": result.config,
        "rows": [asdict(row) for row in result.rows],
    }


def write_result(path: Path, tree: Mapping[str, Any]) -> None:
    """Write the file, one row per line, under a temporary name, and rename it. Raises ResultError."""
    head = json.dumps({key: value for key, value in tree.items() if key != "rows"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in tree["rows"])
    text = head.removesuffix("\n}") + f',\n "rows": [\n{rows}\n ]\n}}\n'
    try:
        replace_text(path, text)
    except OSError as error:
        raise ResultError(f"{path} can't be written: {error.strerror}") from error


def read_result(path: Path) -> EvaluationResult:
    """Read a file that `write_result` wrote. Raises ResultError."""
    try:
        tree = json.loads(path.read_bytes())
    except OSError as error:
        raise ResultError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path} is no JSON: {error}") from error
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        said = tree.get("format") if isinstance(tree, dict) else None
        raise ResultError(
            f"{path} is no result of `millrace evaluate`: its `format` is {said!r}, not {FORMAT!r}"
        )
    try:
        return EvaluationResult(
            model=tree["model"],
            sets=tree["sets"],
            packages=tree["packages"],
            config=tree["config"],
            rows=[row_from(row) for row in tree["rows"]],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def row_from(tree: Mapping[str, Any]) -> EvaluatedRow:
    """Read a row of a file. Raises KeyError, TypeError, ValueError."""
    lists = {name: tuple(value) for name, value in tree.items() if isinstance(value, list)}
    row = EvaluatedRow(**{**tree, **lists})
    for score in row.scores:
        if score is not None and not 0 <= score <= 1:
            raise ValueError(f"row {row.row} of {row.set} has the score {score}")
    return row
