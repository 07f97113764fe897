"""A user's scorer is loaded here: `scorers.tasks.NAME: {scorer: {type: custom, import_path: "my_scorer:MyScorer"}}`.

In: the section. Out: a `Scorer`, made of the class or function at `import_path` and the section's options. It is
imported in the process that scores and nowhere else. What it lacks is named when it is loaded, before it takes a job;
what it returns is checked each time. docs/scorers.md is the page for authors; a plain function is the shortest way to a
scorer, `SimpleScorer` the next.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from broker.errors import Permanent
from broker.scores import Score
from config.custom import import_own
from config.scorer_kinds import CustomConfig
from scorers.scorer import (
    Conversation,
    Conversing,
    Counting,
    Prefetching,
    PrefetchingConversations,
    Scorer,
    make_score,
)

log = logging.getLogger(__name__)
_A = TypeVar("_A")  # what a scorer is told of: a text or a conversation

_TEXTS: Final = ("name", "version")
_METHODS: Final = ("check_row", "score", "self_test", "close")
# What a scorer may count: the fields of `broker.monitoring.counters.ScorerStats` that are no sums of the pool's own.
COUNTS: Final = frozenset({"cache_hits", "cache_misses"})


class CustomScorerError(Permanent):
    """This is raised where a custom scorer can't be loaded or breaks the contract; the message says how."""


class SimpleScorer:
    """This base class of a user's scorer has all but a name, a version and `score`."""

    name: str
    version: str

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raise `BadMessage` for a row that could never be scored. This base class takes every row."""

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Score one completion, see `scorers.scorer.Scorer`. The subclass has to define it."""
        raise NotImplementedError

    def self_test(self) -> None:
        """Raise `SelfTestFailed` where the scorer does not work on this machine. This base class tests nothing."""

    def close(self) -> None:
        """End what the scorer has started. This base class has started nothing."""

    def scored(self, value: float, reason: str) -> Score:
        """Make a score of `value`, in [0, 1]. A 0 says that the answer is wrong, and nothing else.

        Raises:
            CustomScorerError: `value` is no number from 0 to 1.
        """
        try:
            return make_score(self, float(value), reason)
        except (TypeError, ValueError) as error:
            raise CustomScorerError(
                f"{type(self).__module__}:{type(self).__qualname__}: scored() takes a number from "
                f"0 to 1, got {value!r:.80}"
            ) from error

    def unscorable(self, reason: str) -> Score:
        """Say that there is no score: the row's reference is broken, say. Training then leaves the completion out."""
        return make_score(self, None, reason)


def load_scorer(config: CustomConfig) -> Scorer:
    """Load the scorer that the section names, behind a check of what it returns.

    Raises:
        CustomScorerError: the class can't be imported or built, or lacks a part of the contract.
    """
    scorer = _build(config)
    lacks = [f"{name}: text" for name in _TEXTS if not isinstance(getattr(scorer, name, None), str)]
    lacks += [f"{name}()" for name in _METHODS if not callable(getattr(scorer, name, None))]
    if isinstance(scorer, SimpleScorer) and type(scorer).score is SimpleScorer.score:
        lacks.append("score()")
    if lacks:
        raise CustomScorerError(
            f"{config.import_path} is no scorer, it lacks {', '.join(lacks)}; derive it from "
            "scorers.custom.SimpleScorer, or see scorers/scorer.py"
        )
    return _CheckedScorer(config.import_path, scorer)


def takes_every_row(config: CustomConfig) -> bool:
    """Tell whether the section names a function, or a class that has no `check_row` of its own; nothing is built.

    Raises:
        CustomScorerError: the class can't be imported.
    """
    found = _imported(config)
    return isinstance(found, FunctionType) or (getattr(found, "check_row", None) is SimpleScorer.check_row)


def _imported(config: CustomConfig) -> Any:
    module_name, _, class_name = config.import_path.partition(":")
    try:
        found: Any = import_own(module_name)
    except ImportError as error:
        raise CustomScorerError(
            f"import_path {config.import_path}: {error}. It must be importable where the scorers run: installed, in "
            "PYTHONPATH, or in the folder that they are started in"
        ) from error
    except Exception as error:
        raise CustomScorerError(
            f"import_path {config.import_path}: importing it failed: {error!r}"
        ) from error
    for part in class_name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise CustomScorerError(
                f"import_path {config.import_path}: {module_name} has no {class_name}{hint}"
            )
        found = getattr(found, part)
    return found


def _build(config: CustomConfig) -> Any:
    found = _imported(config)
    if isinstance(found, FunctionType):
        return _FunctionScorer(config, found)
    if not isinstance(found, type):
        raise CustomScorerError(
            f"import_path {config.import_path}: a class is wanted, got {type(found).__name__}; a plain function of "
            "(text, verification_info) will do, too"
        )
    try:
        return found(**config.options)
    except TypeError as error:
        raise CustomScorerError(
            f"{config.import_path} can't be built from the options "
            f"{', '.join(config.options) or '(none)'}: {error}"
        ) from error


class _FunctionScorer(SimpleScorer):
    """This makes a scorer of a function `(text, verification_info)`, the options its keyword arguments.

    The function returns a number from 0 to 1, or that with a reason, None where nobody could tell, or a `Score`. Its
    version is a digest of its text and its options: what changes a value changes the version.
    """

    def __init__(self, config: CustomConfig, function: FunctionType) -> None:
        self._path, self._function, self._options = config.import_path, function, config.options
        if inspect.iscoroutinefunction(function):
            raise CustomScorerError(f"{config.import_path} is `async`: a scorer returns its value")
        try:
            inspect.signature(function).bind("", {}, **config.options)
        except TypeError as error:
            raise CustomScorerError(
                f"{config.import_path} can't be called as a scorer is, (text, verification_info): {error}"
            ) from error
        self.name = function.__name__
        try:
            text = inspect.getsource(function)
        except OSError:  # typed into an interpreter, or made by a program
            text = function.__code__.co_code.hex()
        self.version = hashlib.sha256(f"{text}{sorted(config.options.items())}".encode()).hexdigest()[:8]

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        found = self._function(text, verification_info, **self._options)
        if isinstance(found, Score):
            return found
        if found is None:
            return self.unscorable(f"{self.name} gave no value")
        value, reason = found if isinstance(found, tuple) and len(found) == 2 else (found, "")
        try:
            return make_score(self, float(value), str(reason) or f"{self.name} gave {float(value):g}")
        except (TypeError, ValueError) as error:
            raise CustomScorerError(
                f"{self._path} must return a number from 0 to 1, or that with a reason, got {found!r:.80}"
            ) from error


class _CheckedScorer:
    """This wraps a user's scorer, checks its scores, and gives them the class's own name and version."""

    def __init__(self, import_path: str, scorer: Scorer) -> None:
        self._import_path = import_path
        self._scorer = scorer
        # A user's class may have these methods or not. The pool asks by `isinstance`, so the wrapper has them only
        # where the class has them.
        if isinstance(scorer, Prefetching):
            self.prefetch = self._begun(scorer.prefetch)
        if isinstance(scorer, PrefetchingConversations):
            self.prefetch_conversation = self._begun(scorer.prefetch_conversation)
        if isinstance(scorer, Conversing):
            self.score_conversation = self._checked_conversation
        if isinstance(scorer, Counting):
            self.take_counts = self._checked_counts

    @property
    def name(self) -> str:
        return self._scorer.name

    @property
    def version(self) -> str:
        return self._scorer.version

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        self._scorer.check_row(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        return self._checked("score", self._scorer.score, text, verification_info)

    def _checked_conversation(
        self, conversation: Conversation, verification_info: Mapping[str, Any]
    ) -> Score:
        score = cast("Conversing", self._scorer).score_conversation
        return self._checked("score_conversation", score, conversation, verification_info)

    def _checked(self, name: str, method: Callable[..., object], *asked: object) -> Score:
        started = time.monotonic()
        score = method(*asked)
        if not isinstance(score, Score):
            raise CustomScorerError(
                f"{self._import_path}: {name}() must return a Score, got {type(score).__name__}; a "
                "SimpleScorer makes one by self.scored(value, reason)"
            )
        return replace(
            score, scorer=self.name, version=self.version, seconds=score.seconds or time.monotonic() - started
        )

    def _begun(
        self, prefetch: Callable[[_A, Mapping[str, Any]], None]
    ) -> Callable[[_A, Mapping[str, Any]], None]:
        """Return what begins a score early, and fails in the log alone: the score itself says what is wrong."""

        def begin(asked: _A, verification_info: Mapping[str, Any]) -> None:
            try:
                prefetch(asked, verification_info)
            except Exception as error:  # noqa: BLE001 - `score` of the same says what is wrong with it
                log.warning("prefetch_failed scorer=%s error=%r", self._import_path, error)

        return begin

    def _checked_counts(self) -> Mapping[str, int]:
        counts: object = cast("Counting", self._scorer).take_counts()
        if (
            not isinstance(counts, Mapping)
            or not counts.keys() <= COUNTS
            or not all(map(is_count, counts.values()))
        ):
            raise CustomScorerError(
                f"{self._import_path}: take_counts() must return whole numbers by names among "
                f"{', '.join(sorted(COUNTS))}; got {counts!r:.200}"
            )
        return counts

    def self_test(self) -> None:
        self._scorer.self_test()

    def close(self) -> None:
        self._scorer.close()


def is_count(value: object) -> bool:
    """Say whether a value is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
