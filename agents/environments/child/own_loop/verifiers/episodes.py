"""Share code between episodes of both generations of verifiers: a row by its seed, the policy's key, and the end.

In and out: see `agents.environments.child.own_loop.verifiers.kind`.
"""

from __future__ import annotations

import itertools
import os
from typing import Any, Dict, Sequence

from agents.environments.child.own_loop.function import finish_of

HELD_OUT = 1_000_000_000  # larger seeds are of `split: eval`
MODEL = "policy"  # in agents' calls; the gateway accepts any name
NUMBERS = itertools.count(1)


def package_of(name: str) -> str:
    """Return the package of an environment: a hub's `owner/name@version` is installed as `name`."""
    return name.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_")


class Rows:
    """The rows of an environment, some of them held out."""

    def __init__(self, train: Sequence[Any], held_out: Sequence[Any], section: Dict[str, Any]) -> None:
        if count := section["held_out_rows"]:
            train, held_out = train[:-count], train[-count:]
        if not train:
            raise LookupError(f"{section['id']} has no rows, besides held_out_rows={count}")
        self._train, self._held_out, self._id = train, held_out, section["id"]

    def of(self, seed: int) -> Any:
        """Return the row of a seed. Raises LookupError for a held-out one where there are none."""
        if seed < HELD_OUT:
            return self._train[seed % len(self._train)]
        if not self._held_out:
            raise LookupError(f"{self._id} has no rows for evaluation: held_out_rows sets some apart")
        return self._held_out[(seed - HELD_OUT) % len(self._held_out)]


class PolicyKey:
    """A variable with an episode's key while it is played; commands started meanwhile do not inherit it."""

    def __init__(self, key: str) -> None:
        self._key, self._name = key, f"EPISODE_{next(NUMBERS)}_API_KEY"

    def __enter__(self) -> str:
        """Set the variable, and return its name."""
        os.environ[self._name] = self._key
        return self._name

    def __exit__(self, *_: object) -> None:
        """Remove the variable."""
        os.environ.pop(self._name, None)


def finish(reward: Any, parts: Dict[str, float], stop: str) -> Dict[str, Any]:
    """Return the end of an episode, with the parts of its reward for people."""
    told = [f"{name} {value:g}" for name, value in parts.items()]
    return finish_of(
        {"reward": reward, "remark": ", ".join([*told, *([stop] if stop else [])])}, "the rubric"
    )
