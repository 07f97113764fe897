"""A reward file as verl takes it (`custom_reward_function`) scores here: `compute_score` of a Python file, in a child.

In: the text of a completion, and a row with `data_source`, ground truth and `extra_info`. Out: the function's value,
put into [0, 1] by `value_range`, with the other numbers of its dict as components. The file is imported in the child
alone (`scorers.child.process`), once for each child.

The file is trusted as this program is: it runs as the scorers' user, with files and network. The child is there for its
time, its memory and its crashes, not against it; what a model wrote reaches it as text and nothing else. An answer on
which it computes up to its deadline twice, the second time alone in a fresh child, is a 0. A function that waits until
then, and an OSError in it (a service that is away, say), are `Retryable`, and never a value. Every other exception is a
bug of the file: it surfaces, with its traceback, and the group goes to `dead`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from broker.errors import Retryable
from broker.messages import Score
from config.scorer_kinds import VerlFunctionConfig
from scorers.child.process import KillableChild, LimitExceeded, Reply, Request
from scorers.custom import CustomScorerError, SimpleScorer
from scorers.scorer import OVER_LIMIT, OwnTime, make_score

MODULE: Final = "verl_reward_file"  # the name that the file has in the child
LOAD: Final[Request] = {"load": True}
_OWN: Final = frozenset(
    {"score", OVER_LIMIT, "failed_tries"}
)  # keys of a function's dict that are no components
_SHOWN_CHARS: Final = 200


class ServiceAway(Retryable):
    """What the function asked did not answer."""


class VerlFunction(SimpleScorer):
    """Scorer by a function of a file. Holds one child process."""

    name = "verl_function"

    def __init__(self, config: VerlFunctionConfig) -> None:
        """Read the file, to know its version; nothing of it runs yet. Raises CustomScorerError: there is none."""
        self._config = config
        self._where = f"{config.path}:{config.function}"
        path = Path(config.path).expanduser()
        try:
            written = path.read_bytes()
        except OSError as error:
            raise CustomScorerError(
                f"{config.path}: {error.strerror}: the file has to be there where the scorers run"
            ) from error
        settings = json.dumps(
            [config.function, config.options, config.value_range], sort_keys=True, default=str
        )
        self.version = hashlib.sha256(written + settings.encode()).hexdigest()[:8]
        self._child = KillableChild(_Function(config, path), memory_bytes=config.memory_mb << 20)
        self._loaded_pid: int | None = None
        self.own_time = OwnTime(deadline_s=config.deadline_s)

    @property
    def child_pid(self) -> int | None:
        """Return the process id of the child; None before the first completion and after a kill."""
        return self._child.pid

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Return the function's value; see the module for what becomes of everything else.

        Raises:
            Retryable: the child was killed from outside, or what the function asks is away.
            CustomScorerError: the file can't be imported, or its value is none.
            RuntimeError: the function raised.
        """
        started = time.monotonic()
        try:
            reply = self._ask({"text": text, **_of_row(verification_info)})
        except LimitExceeded as limit:
            reason = f"the function exceeded its {limit}, and again alone in a fresh child"
            return make_score(self, 0.0, reason, started=started, components={OVER_LIMIT: 1.0})
        if (said := reply.get("away")) is not None:
            raise ServiceAway(f"{self._where}: {said}")
        if (said := reply.get("problem")) is not None:
            raise CustomScorerError(f"{self._where}: {said}")
        if reply["value"] is None:
            return make_score(self, None, f"{self._config.function} gave no value", started=started)
        return make_score(
            self,
            self._in_range(reply["value"]),
            f"{self._config.function} gave {reply['value']:g}",
            started=started,
            components=reply["components"],
        )

    def self_test(self) -> None:
        """Import the file and find the function. Raises CustomScorerError."""
        self._load()

    def close(self) -> None:
        """End the child."""
        self._child.close()

    def _ask(self, request: Request) -> Reply:
        """Ask the child, and a fresh one where that exceeds a limit; importing the file costs neither's time."""
        try:
            return self._ask_once(request)
        except LimitExceeded:
            return self._ask_once(request)

    def _ask_once(self, request: Request) -> Reply:
        self._load()
        with self.own_time.measured() as most_s:
            return self._child.ask(request, timeout_s=most_s / 2)

    def _load(self) -> None:
        """Have the child import the file, unless it has."""
        if self._child.pid is not None and self._child.pid == self._loaded_pid:
            return
        try:
            reply = self._child.ask(LOAD, timeout_s=self._config.load_s)
        except LimitExceeded as limit:
            raise CustomScorerError(f"{self._where}: importing the file exceeded its {limit}") from limit
        if (problem := reply.get("problem")) is not None:
            raise CustomScorerError(f"{self._where}: {problem}")
        self._loaded_pid = self._child.pid

    def _in_range(self, value: float) -> float:
        low, high = self._config.value_range
        if not low <= value <= high:
            raise CustomScorerError(
                f"{self._where} gave {value:g}, and its values are said to be from {low:g} to {high:g}: set the "
                "scorer's value_range: [LEAST, GREATEST]"
            )
        return (value - low) / (high - low)


def _of_row(info: Mapping[str, Any]) -> Request:
    """Return what verl would hand to the function of a row; a row of II-Thought's has its type for a data source."""
    answer = info.get("answer")
    truth = answer.get("value", answer) if isinstance(answer, Mapping) else answer
    return {
        "data_source": info.get("data_source", info.get("type")),
        "ground_truth": truth,
        "extra_info": info.get("extra_info"),
    }


class _Function:
    """What the child runs: it imports the file at the first request, and calls the function for each of the others."""

    def __init__(self, config: VerlFunctionConfig, path: Path) -> None:
        self._config = config
        self._path = path
        self._function: Callable[..., Any] | None = None

    def __call__(self, request: Request) -> Reply:
        if self._function is None:
            try:
                self._function = self._imported()
            except Exception as error:  # noqa: BLE001 - whatever the file raises while it is imported
                return {"problem": f"importing it failed: {error!r:.{_SHOWN_CHARS}}"}
        if request == LOAD:
            return {}
        try:
            found = self._called(self._function, request)
        except OSError as error:
            return {"away": f"{error!r:.{_SHOWN_CHARS}}"}
        return _read(found)

    def _imported(self) -> Callable[..., Any]:
        spec = importlib.util.spec_from_file_location(MODULE, self._path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self._path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE] = module
        sys.path += [str(self._path.resolve().parent), str(Path.cwd())]  # last: its modules hide none of ours
        spec.loader.exec_module(module)
        found: Callable[..., Any] = getattr(module, self._config.function)
        return found

    def _called(self, function: Callable[..., Any], request: Request) -> Any:
        names = ("data_source", "solution_str", "ground_truth", "extra_info")
        values = (request["data_source"], request["text"], request["ground_truth"], request["extra_info"])
        if self._config.takes_lists:
            given = {f"{name}s": [value] for name, value in zip(names, values, strict=True)}
        else:
            given = dict(zip(names, values, strict=True))
        accepted = inspect.signature(function).parameters
        is_open = any(one.kind is one.VAR_KEYWORD for one in accepted.values())
        given = {name: value for name, value in given.items() if is_open or name in accepted}
        found = function(**given, **self._config.options)
        if inspect.isawaitable(found):
            found = asyncio.run(_awaited(found))
        return found[0] if self._config.takes_lists and isinstance(found, list | tuple) else found


async def _awaited(found: Any) -> Any:
    return await found


def _read(found: Any) -> Reply:
    """Read a function's result as verl does: a number, a dict with `score`, or the first of several."""
    if isinstance(found, Mapping):
        if "score" not in found:
            return {"problem": f"a dict without `score`: {found!r:.{_SHOWN_CHARS}}"}
        value = found["score"]
    else:
        value = found[0] if isinstance(found, list | tuple) and found else found
    if value is None:
        return {"value": None}
    number = _number(value)
    if number is None:
        return {"problem": f"a number is expected, got {value!r:.{_SHOWN_CHARS}}"}
    others = found.items() if isinstance(found, Mapping) else ()
    components = {
        str(name): number_of
        for name, one in others
        if name not in _OWN and (number_of := _number(one)) is not None
    }
    return {"value": number, "components": components}


def _number(value: Any) -> float | None:
    """Return a value as a number; None where it is none, or not finite."""
    if isinstance(value, str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
