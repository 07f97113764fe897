"""Weight each token in the global batch's mean: by token, by sequence, by prompt or by a constant.

In: which tokens train, and the completion and prompt of each. Out: one weight per token, so that the sum over all ranks
and micro-batches is the mean that the objective's `aggregate` names. Pure; used by the backend in every rank.

Source: `token` is DAPO's, arXiv:2503.14476, eq. 8; `sequence` is GRPO's, arXiv:2402.03300, eq. 3; `prompt` is
ScaleRL's, arXiv:2510.13786, sec. 3.2; `constant` is Dr. GRPO's, arXiv:2503.20783, sec. 3.2.
"""

# N tokens of a rank, S completions and P prompts of the global batch.

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from config.learner.objective import Aggregate


def token_weights(
    sequence_ids_N: NDArray[np.int32],
    tokens_S: NDArray[np.int64],
    prompts_S: NDArray[np.int32],
    *,
    aggregate: Aggregate,
    constant_length: int | None,
) -> NDArray[np.float64] | None:
    """Return each token's weight; None where all weigh 1 / (trained tokens of the global batch).

    Args:
        sequence_ids_N: the completion of each token, 0 <= id < S.
        tokens_S: trained tokens of each completion, over all ranks. A completion with none is not counted.
        prompts_S: the prompt of each completion, 0 <= prompt < P.
        aggregate: as in the configuration.
        constant_length: nominal tokens of a completion; for `constant` alone.
    """
    completions = max(1, int((tokens_S > 0).sum()))
    match aggregate:
        case "token":
            return None
        case "sequence":
            weights_S = 1 / (completions * np.maximum(tokens_S, 1))
        case "prompt":
            tokens_P = np.bincount(prompts_S, weights=tokens_S)
            prompts = max(1, int((tokens_P > 0).sum()))
            weights_S = 1 / (prompts * np.maximum(tokens_P, 1))[prompts_S]
        case "constant":
            if constant_length is None:
                raise ValueError("aggregate: constant needs constant_length")
            weights_S = np.full(len(tokens_S), 1 / (completions * constant_length))
        case _:
            assert_never(aggregate)
    return weights_S[sequence_ids_N]
