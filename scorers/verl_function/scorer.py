"""A reward file as verl takes it (`custom_reward_function`) scores here: `compute_score` of a Python file, in a child.

In: the text of a completion, and a row with `data_source`, ground truth and `extra_info`. Out: the function's value,
put into [0, 1] by `value_range`, with the other numbers of its dict as components. The file is imported in the child
alone (`scorers.child.process`), once for each child.

The file is trusted as this program is: it runs as the scorers' user, with files and network. The child is there for its
time, its memory and its crashes, not against it; what a model wrote reaches it as text and nothing else.

Whose fault is it that an answer has no value? Where the function computes up to its deadline, ends itself (`sys.exit`,
`os._exit`, a signal), recurses without end, or raises what code of the answer's raised, it is asked again, alone in a
fresh child, and then about CONTROLS, answers that ask nothing of it. Where it ends with one of them in such a way, too,
the row or the function is at fault, and the answer unscorable; else the answer is, and it is a 0. A function that
waits until its deadline, and an OSError in it (a service that is away, say), are `Retryable`, and never a value.
Every other exception is a bug of the file: it surfaces, with its traceback, and the group goes to `dead`.
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
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker.errors import Retryable
from broker.scores import Score
from config.scorer_kinds import VerlFunctionConfig
from scorers.child.process import ChildEnded, ChildKilled, KillableChild, LimitExceeded, Reply, Request
from scorers.custom import CustomScorerError, SimpleScorer
from scorers.last_row import LastRow
from scorers.scorer import OVER_LIMIT, OwnTime, make_score

RULES: Final = 2  # raise it with any change here or in what this imports that can change a score
MODULE: Final = "verl_reward_file"  # the name that the file has in the child
LOAD: Final[Request] = {"load": True}
_OWN: Final = frozenset(
    {"score", OVER_LIMIT, "failed_tries"}
)  # keys of a function's dict that are no components
_SHOWN_CHARS: Final = 200
CONTROLS: Final = (
    "",
    "I don't know.",
    "So it is 0: \\boxed{0}\n\n```python\nanswer = 0\n```\n\n<answer>0</answer>\n\n#### 0",
)


class ServiceAway(Retryable):
    """What the function asked did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """The function gave an answer no value, and may not be the one to blame."""

    what: str  # it did, for people
    is_limit: bool = False
    is_of_answer: bool = False  # whether code of the answer's raised
    bug: str | None = None  # the traceback, where it raised


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
            [RULES, config.function, config.options, config.value_range], sort_keys=True, default=str
        )
        self.version = hashlib.sha256(written + settings.encode()).hexdigest()[:8]
        self._child = KillableChild(_Function(config, path), memory_bytes=config.memory_mb << 20)
        self._loaded_pid: int | None = None
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._killed: set[str] = set()  # digests of requests at which the child was killed or stopped
        self._faults = LastRow(self._fault_of)

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
        request = {"text": text, **_of_row(verification_info)}
        reply = self._tried(request)
        if isinstance(reply, _Ended):
            reply = self._tried(request)
        if isinstance(reply, _Ended):
            return self._without_value(reply, verification_info, started)
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

    def _without_value(self, end: _Ended, verification_info: Mapping[str, Any], started: float) -> Score:
        """Return the score of an answer that led to no value twice. Raises RuntimeError where any answer raises."""
        if (fault := self._faults.of(verification_info)) is None:
            over_limit = {OVER_LIMIT: 1.0} if end.is_limit else {}
            reason = f"the function {end.what}, and again alone in a fresh child"
            return make_score(self, 0.0, reason, started=started, components=over_limit)
        if fault.bug is not None:
            raise RuntimeError(f"{self._where} failed:\n{fault.bug}")
        reason = f"the function {fault.what} at any answer to this row"
        return make_score(self, None, reason, started=started)

    def _child_reply(self, request: Request, *, is_control: bool) -> Reply:
        """Ask the child. What a control answer takes is no answer's time."""
        if is_control:
            return self._child.ask(request, timeout_s=self._config.deadline_s / 2)
        with self.own_time.measured() as most_s:
            return self._child.ask(request, timeout_s=most_s / 2)

    def _tried(self, request: Request, *, is_control: bool = False) -> Reply | _Ended:
        """Ask the child once; where the function ended there is no child any more. Importing the file costs no time."""
        self._load()
        try:
            reply = self._child_reply(request, is_control=is_control)
        except LimitExceeded as limit:
            return _Ended(what=f"exceeded its {limit}", is_limit=True)
        except ChildEnded:
            return _Ended(what="ended its process")
        except ChildKilled:
            digest = hashlib.sha256(json.dumps(request, default=str).encode()).hexdigest()
            if digest in self._killed:  # from outside once, perhaps, but hardly at the same answer again
                return _Ended(what="had its process killed or stopped")
            self._killed.add(digest)
            raise
        if (what := reply.get("ended")) is not None:
            self._child.close()
            return _Ended(
                what=f"was ended by {what}", is_of_answer=reply["is_of_answer"], bug=reply.get("bug")
            )
        return reply

    def _fault_of(self, verification_info: Mapping[str, Any]) -> _Ended | None:
        """Return how the function ends with an answer that asks nothing of it; None where it does not."""
        for text in CONTROLS:
            try:
                reply = self._tried({"text": text, **_of_row(verification_info)}, is_control=True)
            except RuntimeError:  # it raised, and has not ended
                continue
            if isinstance(reply, _Ended):
                if reply.is_of_answer and text:  # this text is no program
                    continue
                return reply
            if (said := reply.get("away")) is not None:
                raise ServiceAway(f"{self._where}: {said}")
        return None

    def _load(self) -> None:
        """Have the child import the file, unless it has."""
        if self._child.pid is not None and self._child.pid == self._loaded_pid:
            return
        try:
            reply = self._child.ask(LOAD, timeout_s=self._config.load_s)
        except LimitExceeded as limit:
            raise CustomScorerError(f"{self._where}: importing the file exceeded its {limit}") from limit
        except ChildEnded as end:
            raise CustomScorerError(f"{self._where}: importing the file ended its process") from end
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
            except BaseException as error:  # noqa: BLE001 - whatever the file raises while it is imported
                return {"problem": f"importing it failed: {error!r:.{_SHOWN_CHARS}}"}
        if request == LOAD:
            return {}
        started = time.time()
        try:
            return _read(self._called(self._function, request))
        except MemoryError:
            raise
        except Exception as error:
            is_of_answer = _is_of_answer(error, started)
            if isinstance(error, RecursionError) or is_of_answer:
                bug = traceback.format_exc(limit=-20)
                return {"ended": type(error).__name__, "is_of_answer": is_of_answer, "bug": bug}
            if isinstance(error, OSError):
                return {"away": f"{error!r:.{_SHOWN_CHARS}}"}
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit, KeyboardInterrupt and their like
            return {"ended": type(error).__name__, "is_of_answer": False}

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


def _is_of_answer(error: BaseException | None, started: float) -> bool:
    """Return whether an exception, or one that led to it, came through code of the answer's.

    Such code is of no file, or of one that was written since the function was called. What is no code counts, too.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        names = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
        names += [str(error.filename)] if isinstance(error, SyntaxError) else []
        for name in names:
            try:
                if Path(name).stat().st_mtime >= started:
                    return True
            except (OSError, ValueError):
                if not name.startswith("<frozen "):
                    return True
        error = error.__cause__ or error.__context__
    return False


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
