"""Generate problems with reasoning-gym, from a data set's name, its options and a seed.

In: these three. Out: an entry, as a file of the library would have it. The library runs here, in the caller's process:
it generates its own texts, and never sees a model's text. Its import takes seconds. Used by the environment
`reasoning_gym`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any, Final

from broker.errors import BadMessage
from tasks.values import hint
from verdicts.gym.rows import COMPOSITE, LIBRARY, data_sets, version

SEED_BELOW: Final = 1 << 32


def verification_of(dataset: str, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the `verification_info` of the problem; the same arguments always give the same problem.

    Args:
        dataset: the library's name of it; `composite` mixes others, and its option `datasets` is a list of their
            `name`, `weight` and `config`.
        options: of its configuration, such as `min_terms`.
        seed: seed of the problem.
    Raises:
        BadMessage: there is no such data set.
        LibraryMissing: the library is not installed.
        Exception: any error of the library about invalid options.
    """
    known = data_sets()
    if dataset not in known and dataset != COMPOSITE:
        raise BadMessage(f"reasoning-gym {version()} has no data set {dataset!r}{hint(dataset, known)}")
    options = dict(options)
    if dataset == COMPOSITE and "datasets" in options:
        spec = importlib.import_module(f"{LIBRARY}.composite").DatasetSpec
        options["datasets"] = [spec(**{"weight": 1.0, "config": {}, **one}) for one in options["datasets"]]
    made = importlib.import_module(LIBRARY).create_dataset(dataset, seed=seed % SEED_BELOW, size=1, **options)
    return {
        "type": LIBRARY,
        "answer": {"dataset": dataset, "entry": json.loads(json.dumps(made[0], default=str))},
    }
