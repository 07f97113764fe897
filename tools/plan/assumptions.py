"""List the assumptions of a plan's figures that no configuration contains, and how to check them later.

In: the letters of the figures. Out: for each one the assumption in words, and the command that checks it.
"""

from __future__ import annotations

from typing import NamedTuple


class Assumption(NamedTuple):
    """An assumption, and its check."""

    text: str
    check: str  # a command, or where to look


RANK, VLLM, CARD, SHAPE, ANSWERS, STEP, LAG, OPERATIONS, REDIS, BUDGET, TURNS = "abcdefghijk"

ASSUMPTIONS = {
    RANK: Assumption(
        "a rank's terms are within 7% of tensors counted in steps of CPU ranks; CUDA's 1 GiB is a guess",
        'make prove-gpu ARGS="--steps rates", on the card',
    ),
    VLLM: Assumption(
        "vLLM takes 2 GiB beside weights and KV cache, an estimate",
        "the generator's log says how many tokens its KV cache has; make prove-gpu",
    ),
    CARD: Assumption("each GPU is the card above, and nobody else uses it", "millrace doctor CONFIG, there"),
    SHAPE: Assumption(
        "a model whose files are not here is taken for the nearest Qwen2.5 or Qwen3",
        "hf download MODEL, and plan again",
    ),
    ANSWERS: Assumption(
        "answers have the mean length above; sampling.max_tokens unless --answer-tokens says less",
        "response_tokens_mean in runs/NAME/metrics.jsonl",
    ),
    STEP: Assumption(
        "a step each so many seconds is what you want: --step-s", "millrace top says what a step takes"
    ),
    LAG: Assumption(
        "groups train in the order of their issue, and none is dropped for its rewards; dropped groups lower the lag",
        "lag_mean in runs/NAME/metrics.jsonl; make prove-lag, for the bound",
    ),
    OPERATIONS: Assumption(
        "operations are those of the MFU: nothing that is computed again, no reference model",
        'make prove-gpu ARGS="--steps rates" measures the MFU',
    ),
    REDIS: Assumption(
        "12 bytes a token in Redis; short answers take more", "make bench ARGS=codec; millrace top"
    ),
    BUDGET: Assumption(
        "every prompt and answer has its full length, and the budget is full",
        "millrace redis-cli RUN INFO memory",
    ),
    TURNS: Assumption(
        "episodes take all their turns and end at full length; a conversation that an update meets is half as long, "
        "and stays with one generator",
        "millrace top RUN --once --json: episodes.turns; the generator's log says its prefix-cache hits",
    ),
}
