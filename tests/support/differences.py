"""What a policy says that finds each token as likely as its sampler did."""

from __future__ import annotations

import numpy as np

from learner.training.backend import Differences
from learner.training.batch import Batch


def no_differences(batch: Batch) -> Differences:
    count = len(batch.prompts)
    tokens = np.bincount(batch.sequence_ids[batch.loss_mask], minlength=count)
    return Differences(np.zeros(count), np.zeros(count), tokens)
