"""Rewards are made of scores here, in two steps.

In: what the scorers of a task say of one text. Out: one score, which travels, and the number that the advantage is
computed from. `combine_scores` makes one score of a text: the weighted mean of the task's own scorer and of those in
`extra_scorers`, 0 where one of their gates is closed. `reward_of` adds what a completion's shape and penalties do. The
score says whether the answer was right; the reward is what training pays for, and it alone may be negative. Every value
is kept as a component under its own name, and the reason names each part that changed the reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from broker.scores import Score
from config.scorer_kinds import SweConfig
from config.scorers import TaskConfig
from scorers.reward.penalties import Penalty, penalties_of

if TYPE_CHECKING:  # the module brings numpy, which a process that scores single rows does without
    from broker.messages import Completion

NO_EDIT_REWARD: Final = -1.0  # where there is no edit to compare; SWE-RL, arXiv:2502.18449, eq. 1


def combine_scores(task: TaskConfig, own: Score, extra: Mapping[str, Score]) -> Score:
    """Make one score of what all scorers say of a text.

    Args:
        task: its weights and gates count.
        own: the score by the task's own scorer.
        extra: the scores by the others, under their names in `task.extra_scorers`.
    Returns:
        The score with a component for each scorer; unscorable where a score that counts is.
    """
    if own.value is None:
        return own
    components = {**own.components, task.scorer.type: own.value}
    value = own.value * (1.0 - sum(part.weight for part in task.extra_scorers.values()))
    reasons, is_open = [own.reason], True
    for name, part in task.extra_scorers.items():
        score = extra[name]
        components |= {f"{name}.{key}": found for key, found in score.components.items()}
        if score.value is None:
            if part.counts:
                return replace(score, components=components, reason=f"{name}: {score.reason}")
            continue
        components[name] = score.value
        value += part.weight * score.value
        is_closed = part.gate is not None and score.value < part.gate
        is_open = is_open and not is_closed
        if part.weight > 0 or is_closed:
            closed = f" is below its gate of {part.gate:g}" if is_closed else ""
            reasons.append(f"{name} {score.value:g}{closed}: {score.reason}")
    version = "; ".join([own.version, *(f"{name} {extra[name].version}" for name in task.extra_scorers)])
    return replace(
        own,
        value=min(value, 1.0) if is_open else 0.0,
        components=components,
        reason="; ".join(reasons),
        version=version,
        seconds=own.seconds + sum(score.seconds for score in extra.values()),
    )


def reward_of(
    task: TaskConfig,
    content: Score,
    completion: Completion,
    verification_info: Mapping[str, Any],
    allowed_tokens: int,
) -> tuple[Score, float | None]:
    """Compute a completion's reward, and add the components of shape and penalties to its score.

    Args:
        task: says how completions are scored.
        content: what `combine_scores` made of the completion's text.
        completion: its text has a shape; its tokens and its end count too.
        verification_info: its row.
        allowed_tokens: the longest completion that its prompt allowed.
    Returns:
        The score, and the reward; None where the content is unscorable.
    """
    if content.value is None:
        return content, None
    shape = None
    if task.format is not None:
        from scorers.format.completion_shape import CompletionShape  # reads the answers of all domains

        shape = CompletionShape(task.format).score(
            completion.text, verification_info, completion.finish_reason
        )
    return reward(task, content, shape, penalties_of(task.penalties, completion, allowed_tokens))


def reward(
    task: TaskConfig, content: Score, shape: Score | None, penalties: Sequence[Penalty]
) -> tuple[Score, float | None]:
    """Do the arithmetic of `reward_of`.

    Args:
        task: `format.mode` says how content and shape meet. `scorer.format_penalty` goes before that.
        content: the score so far.
        shape: None exactly where `task.format` is None.
        penalties: are taken off in the end.
    """
    if (task.format is None) != (shape is None):
        raise ValueError("a format score belongs to a task with a format, and to no other")
    if content.value is None:
        return content, None
    components, reasons = dict(content.components), [content.reason]
    paid = content.value if shape is None else _shaped(task, content.value, shape.value or 0.0)
    if shape is not None and shape.value is not None:
        components["format"] = shape.value
        if shape.value < 1.0:
            reasons.append(f"format: {shape.reason}")
    if (
        isinstance(task.scorer, SweConfig)
        and task.scorer.format_penalty
        and content.components.get("edit") == 0.0
    ):
        paid = NO_EDIT_REWARD
    for penalty in penalties:
        components[penalty.name] = -penalty.amount
        paid -= penalty.amount
        if penalty.amount:
            reasons.append(f"{penalty.name} -{penalty.amount:g}: {penalty.reason}")
    return replace(content, components=components, reason="; ".join(reasons)), paid


def _shaped(task: TaskConfig, value: float, shape: float) -> float:
    """Weigh the content's value with the shape's, as the task's format says."""
    if task.format is None:
        return value
    match task.format.mode:
        case "gate":
            return value if shape == 1.0 else 0.0
        case "mix":
            return (1 - task.format.weight) * value + task.format.weight * shape
        case "penalty":
            return value - task.format.weight * (1.0 - shape)
