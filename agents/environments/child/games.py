"""Run games of gymnasium, gem and textarena as environments in text.

In: the policy's message. Out: the game's output, and its rewards. The library is the children's interpreter's. A game
that can't be made raises the library's error. If the message is no action of gymnasium's game, the policy is informed,
which costs a turn.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any, Dict, Optional, Tuple

from agents.environments.child.imports import find_beside_the_start
from agents.environments.child.prepared import PreparedKind

Answer = Tuple[Optional[str], Optional[float], bool, bool, Dict[str, Any]]

COLOURED = re.compile(r"\x1b\[[\d;]+m(.*?)\x1b\[0?m", re.DOTALL)
SEEDS = 1 << 31  # of numpy's generators


def prepare(section: Dict[str, Any]) -> PreparedKind:
    """Import the library, and make the game once, so that a wrong name fails at the start."""
    find_beside_the_start()
    library = importlib.import_module(section["type"])
    kind: Any = {"gymnasium": Gymnasium, "gem": Gem, "textarena": TextArena}[section["type"]]
    make = functools.partial(kind, library, section)
    make().close()
    return PreparedKind(make, is_async=False)


class Gymnasium:
    """A game of gymnasium that takes one of several actions, or a text."""

    def __init__(self, library: Any, section: Dict[str, Any]) -> None:
        self._game = library.make(section["id"], **section["options"])
        self.reward_range = getattr(self._game.unwrapped, "reward_range", None)
        space = self._game.action_space
        if isinstance(space, library.spaces.Text):
            self._actions: Dict[str, int] = {}
            return
        if not isinstance(space, library.spaces.Discrete):
            raise TypeError(f"the actions of {section['id']} are {space}; here are played Discrete and Text")
        numbers = range(int(space.start), int(space.start + space.n))
        names = section["actions"] or [str(number) for number in numbers]
        if len(names) != len(numbers):
            raise ValueError(
                f"actions has {len(names)} names, and {section['id']} has {len(numbers)} actions"
            )
        self._actions = {name.lower(): number for name, number in zip(names, numbers)}
        self._asks = f"Say one of: {', '.join(names)}."
        words = "|".join(re.escape(name) for name in sorted(self._actions, key=len, reverse=True))
        self._word = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    def reset(self, row: Dict[str, Any], seed: int) -> str:  # noqa: ARG002
        """Begin, and list the actions."""
        shown, _ = self._game.reset(seed=seed % SEEDS)
        return f"{self._shown(shown)}\n\n{self._asks}" if self._actions else self._shown(shown)

    def step(self, action: str) -> Answer:
        """Take the last action in the message."""
        taken: Any = action
        if self._actions:
            words = self._word.findall(action)
            if not words:
                return f"That names no action. {self._asks}", 0.0, False, False, {"remark": "no action"}
            taken = self._actions[words[-1].lower()]
        shown, reward, terminated, truncated, _ = self._game.step(taken)
        return self._shown(shown), float(reward), bool(terminated), bool(truncated), {}

    def close(self) -> None:
        """Close the game."""
        self._game.close()

    def _shown(self, observation: Any) -> str:
        """Return the game's text rendering; a coloured letter is in brackets."""
        if self._game.render_mode == "ansi":
            return COLOURED.sub(r"[\1]", self._game.render()).strip("\n")
        return str(observation)


class Gem:
    """A game of gem."""

    def __init__(self, library: Any, section: Dict[str, Any]) -> None:
        self._game = library.make(section["id"], **section["options"])

    def reset(self, row: Dict[str, Any], seed: int) -> str:  # noqa: ARG002
        """Begin."""
        return str(self._game.reset(seed=seed % SEEDS)[0])

    def step(self, action: str) -> Answer:
        """Take the action."""
        shown, reward, terminated, truncated, _ = self._game.step(action)
        return str(shown), float(reward), bool(terminated), bool(truncated), {}

    def close(self) -> None:
        """Close the game, where it can be."""
        if callable(close := getattr(self._game, "close", None)):
            close()


class TextArena:
    """A game of textarena for one player, whose reward comes at its end."""

    def __init__(self, library: Any, section: Dict[str, Any]) -> None:
        self._game = library.make(env_id=section["id"], **section["options"])
        self._said = ""  # by the game, since its beginning

    def reset(self, row: Dict[str, Any], seed: int) -> str:  # noqa: ARG002
        """Begin."""
        self._game.reset(num_players=1, seed=seed % SEEDS)
        return self._shown()

    def step(self, action: str) -> Answer:
        """Take the action."""
        done, info = self._game.step(action=action)
        if done:
            rewards, _ = self._game.close()
            remark = str(info.get("reason", "")) if isinstance(info, dict) else ""
            return None, float(rewards[0]), True, False, {"remark": remark}
        return self._shown(), None, False, False, {}

    def close(self) -> None:
        """Do nothing: the library has nothing to close."""

    def _shown(self) -> str:
        """Return the new output: the library returns everything since the beginning."""
        before, self._said = self._said, str(self._game.get_observation()[1])
        return (self._said.removeprefix(before)).strip()
