"""List each key of a step's record in `metrics.jsonl` with its meaning; docs/metrics.md is written from this table.

A key with a dot is inside an object: `generators.NAME.lag_mean`. A test compares the rows with the output of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEYS: Final = {
    "step": "optimizer steps done, this one included",
    "at": "Unix seconds",
    "is_replayed": "true where the step was trained again after a crash, and its line was lost",
    "reward_mean": "mean reward of all completions that came back since the last step, dropped groups included",
    "reward_mean_trained": "mean reward of the completions of this step",
    "reward_by_task.TASK": "the same by task",
    "reward_by_source.SOURCE": "the same by data source; by task where a row has none",
    "reward_by_column.NAME.VALUE": "the same by the values of a column of `data.columns`, with 32 at most in the step",
    "components.NAME": "mean of a part of the scores (format, a penalty, a scorer), over completions that have it",
    "groups": "groups of this step",
    "tokens": "trained tokens",
    "response_tokens_mean": "mean tokens of a completion",
    "response_tokens_max": "tokens of the longest completion",
    "truncated_share": "share of completions that were cut: answers at their max_tokens, episodes at a limit",
    "repeated_share": "share of stretches of four tokens that came before in their completion; the mean",
    "same_answer_share": "share of completions that are another one of their group, token for token",
    "arrived.NAME": "the same shares and means over all completions that came back since the last step, and:",
    "arrived.completions": "their number",
    "arrived.score_mean": "mean score, before format and penalties",
    "arrived.components.NAME": "mean of a part of the scores",
    "arrived.shared_answer_share": "share of completions that another prompt was given too, token for token",
    "arrived.turn_tokens_mean": "mean tokens that the policy sampled for each of its turns; an answer is one",
    "arrived.length_correlation": (
        "correlation of length and reward within a group, among completions of as many turns; the mean over groups"
    ),
    "arrived.by_version.VERSION": (
        "of the groups that a version sampled: `groups`, their `reward_mean`, and `reward_std` of their means"
    ),
    "episodes.count": "only in a step with episodes of several turns: their number",
    "episodes.turns_mean": "mean turns of the policy in an episode",
    "episodes.turns_max": "turns of the longest",
    "episodes.tool_calls_mean": "mean calls of tools",
    "episodes.tool_errors_mean": "mean answers of tools that say that the call failed",
    "episodes.sampled_tokens_mean": "mean tokens that the policy sampled",
    "episodes.observed_tokens_mean": "mean tokens between its turns: what tools and environment said",
    "episodes.segments_mean": "mean sequences of an episode: 1, and one more each time its history was rewritten",
    "episodes.ended_by.END": (
        "share that ended by: `message` (the policy's last one), `environment`, `turns`, `context`, `tokens`, "
        "`deadline`, `crash`, `failed`"
    ),
    "arrived.episodes.NAME": "the same over all episodes that came back since the last step",
    "arrived.crashed_share": "share of these that their agent's or environment's own code ended, most by an exception",
    "arrived.crashes.NAME": (
        "of these by the exception's type and line, with the rarest as `others`: `episodes`, how many of them are "
        "`scored` as they stood, and what the newest exception `said`"
    ),
    "alarms": "what the log warned of after this step",
    "histograms.NAME": "upper ends of bins (`edges`) and their `counts`, one more: `lag`, `ratio`, `response_tokens`",
    "lag_mean": "mean lag of the trained tokens, versions",
    "lag_max": "largest lag of a trained token, versions",
    "lag_sampling": "part of lag_mean that came while the groups were sampled, by the share of their ages",
    "lag_queue": "part of it that came while they waited in rollouts and in scored",
    "lag_scoring": "part of it that came while they were scored",
    "generators.NAME.lag_mean": (
        "mean lag of the tokens of one generator; several that sampled one episode are `A+B`"
    ),
    "generators.NAME.lag_max": "largest lag of its tokens",
    "generators.NAME.tokens": "trained tokens of it",
    "generators.NAME.mismatch_kl": "`mismatch_kl` of its tokens",
    "generators.NAME.mismatch_max": "`mismatch_max` of its tokens",
    "loss": "value of the objective, the mean over optimizer steps",
    "entropy": "mean entropy of the trained tokens' distributions, nats",
    "grad_norm": "norm of the gradient before clipping",
    "lr": "learning rate",
    "loss_scale": "what the loss was multiplied by in model.dtype=float16",
    "skipped": "1 where the gradient was not finite and the weights stay as they were",
    "ratio_mean": "mean importance ratio of the trained tokens",
    "ratio_max": "largest importance ratio",
    "clip_fraction_low": "share of trained tokens that the lower clip cut",
    "clip_fraction_high": "share of trained tokens that the upper clip cut",
    "clip_fraction_dual": "share of trained tokens that the dual clip cut",
    "rejected_fraction": "share of sampled tokens that the correction rejected; only with one",
    "sampler_kl": "mean divergence of sampler and learner over all tokens (k3, nats)",
    "mismatch_kl": "the same over tokens of lag 0, where only rounding may differ",
    "mismatch_max": "largest difference of a log-probability of a token of lag 0, nats",
    "reference_kl": "mean divergence to the reference, nats; only with a KL term",
    "kl_coef": "its coefficient in this step",
    "dropped": "groups that were dropped since the last step",
    "dropped_by_reason.REASON": "the same by reason",
    "dropped_by_source.SOURCE.REASON": "the same by data source and reason",
    "late_wait_seconds": "seconds spent with enough groups that max_lag does not allow to take, since the start",
    "lag_breaches": "groups trained beyond max_lag without leave, since the start; must be 0",
    "late_groups": "groups trained beyond max_lag as `late_groups: train` allows, since the start",
    "age_prompts_s": "mean seconds that a group of the step waited to be sampled, or played",
    "age_sampling_s": "mean seconds of its sampling; of episodes all of their play, with what it waited for",
    "age_rollouts_s": "mean seconds that it waited to be scored",
    "age_scoring_s": "mean seconds of its scoring",
    "age_scored_s": "mean seconds that it waited to be trained",
    "age_queue_s": "the three waits together, in prompts, rollouts and scored",
    "queues.STREAM": "entries of a stream after the step",
    "seconds": "seconds since the last step",
    "seconds_wait": "of these: waiting for groups",
    "seconds_train": "training",
    "seconds_journal": "writing the journal",
    "seconds_publish": "gathering the weights, and waiting for the version before to be published",
    "seconds_evaluate": "waiting for a held-out round",
    "seconds_other": "everything else",
    "publish_behind_seconds": (
        "seconds that the newest published version took behind the steps: written, announced, its groups retired"
    ),
    "evaluations": (
        "held-out rounds that ended: `version`, `pass_rate`, `mean_score` and its standard error over the prompts "
        "(`score_error`), `samples`, the versions that sampled it (`min_version`, `max_version`), or why not: `reason`"
    ),
    "eval_version": "version of the newest of them",
    "eval_pass_rate": "its pass rate",
    "eval_samples": "its samples",
}


def as_table(keys: Mapping[str, str]) -> list[str]:
    """Return the lines of a table of keys with what they mean."""
    return ["| key | means |", "|---|---|", *(f"| `{key}` | {meaning} |" for key, meaning in keys.items())]
