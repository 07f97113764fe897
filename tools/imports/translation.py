"""Translate all sources of a run of verl to settings here, and account for every key.

In: `Theirs`, and the tasks of the local data. Out: a `Translation`. Unknown keys, refused values, and values of the
wrong type are errors with their places, all in one ConfigError. Pure; called by `tools.imports.command`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from config.explanations import ConfigError
from tools.arguments import UsageError
from tools.imports.effects import notes_of_effect, problems_of_effect
from tools.imports.known_keys import BELOW_SECTIONS, is_known
from tools.imports.options import accounts_of_call, option_problems
from tools.imports.rule import ANY, UNSET, Account, KeyRule, KeyTranslation, KeyVerdict
from tools.imports.served import accounts_of_served, serve_section
from tools.imports.tables import actor, algorithm, correction, data, rewards, rollout, today, trainer
from tools.imports.theirs import Theirs, VerlSetting, WrongValue

RULES: Final[tuple[KeyRule, ...]] = (
    *data.RULES,
    *actor.RULES,
    *algorithm.RULES,
    *correction.RULES,
    *rollout.RULES,
    *rewards.RULES,
    *today.RULES,
    *trainer.RULES,
)
GROUP: Final = today.GROUP  # in a key with `@`, which names a part of a configuration
_EXACT: Final[Mapping[str, KeyRule]] = {rule.key: rule for rule in RULES if not rule.key.endswith(ANY)}
_BELOW: Final[tuple[KeyRule, ...]] = tuple(rule for rule in RULES if rule.key.endswith(ANY))
# Our settings where verl has no key, with the reason.
BESIDE: Final[Mapping[str, tuple[Any, str]]] = {
    "learner.max_lag": (
        1,
        "verl alternates, which is 0 here; with 1 generators sample on while the learner trains",
    ),
    "learner.filters.truncated": ("keep", "verl trains on answers that were cut"),
    "learner.group_deadline_s": (1800.0, "a long answer takes minutes"),
}
EVALUATION: Final = ("evaluation.deadline_s", 1800.0, "a whole held-out set takes minutes")
DEFAULT: Final = "verl's default of "


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key here with its value and reason."""

    path: str
    value: Any
    why: str  # the key of verl's, or words


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A run, and an account of every key, option and variable of its sources."""

    settings: tuple[Setting, ...]
    accounts: tuple[Account, ...]
    options: tuple[Account, ...] = ()
    variables: tuple[Account, ...] = ()
    notes: tuple[str, ...] = ()  # for people: what to know before it runs


def todays_defaults() -> dict[str, Any]:
    """Return the defaults of today's verl, for every key whose absence would mean something else here."""
    return {rule.key: rule.default for rule in RULES if rule.default is not UNSET}


def rule_for(key: str) -> KeyRule | None:
    """Return the rule of a key: its own, else the first that covers its section, where verl has the key."""
    if "@" in key:
        return GROUP
    rule = _EXACT.get(key) or next((rule for rule in _BELOW if rule.fits(key)), None)
    return rule if rule is None or rule.key == key or rule.is_open or is_known(key) else None


def translate(theirs: Theirs, found_tasks: Collection[str] = ()) -> Translation:
    """Translate all keys. Raises ConfigError that names every untranslatable key."""
    problems: list[str] = []
    accounts: list[Account] = []
    problems += problems_of_effect(theirs)
    ours: dict[str, Setting] = {}
    for said in theirs.said.values():
        outcome = _outcome(said, theirs, problems)
        if outcome is not None:
            accounts.append(Account(said=said, outcome=outcome))
            ours |= {
                path: Setting(path=path, value=value, why=said.key)
                for path, value in outcome.settings.items()
            }
    if not problems:
        for key in (key for key in theirs.defaults if key not in theirs.said and rule_for(key) is not None):
            outcome = _outcome(
                VerlSetting(key=key, value=theirs.defaults[key], where="verl's default"), theirs, problems
            )
            for path, value in (outcome.settings if outcome else {}).items():
                if path not in ours or ours[path].why.startswith(DEFAULT):
                    words = f": {outcome.words}" if outcome and outcome.words else ""
                    ours[path] = Setting(path=path, value=value, why=f"{DEFAULT}{key}{words}")
    problems += option_problems(theirs)
    if not problems:
        try:
            _add_ours(theirs, found_tasks, ours)
        except WrongValue as error:
            problems.append(f"the scorers: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return Translation(
        settings=tuple(_by_part(one, theirs) for one in ours.values()),
        accounts=tuple(accounts),
        notes=(*theirs.notes, *notes_of_effect(theirs), *_unknown_defaults(theirs)),
        options=(
            *accounts_of_call(theirs),
            *accounts_of_served(theirs, asked=rewards.asks_served(theirs, found_tasks)),
        ),
    )


def _unknown_defaults(theirs: Theirs) -> list[str]:
    """Name keys of this verl's own base that no rule covers, and no source has."""
    unknown = sorted(key for key in theirs.defaults if key not in theirs.said and rule_for(key) is None)
    if not unknown:
        return []
    named = ", ".join(f"{key}={theirs.defaults[key]!r}" for key in unknown[:20])
    return [f"{len(unknown)} keys of this verl's base are not known here, and nobody wrote them: {named}"]


def _by_part(setting: Setting, theirs: Theirs) -> Setting:
    """Name the key of a value that another key's rule has read."""
    read_by = setting.why.removeprefix(DEFAULT).partition(": ")[0]
    if setting.path == "learner.tokens_per_micro_batch" and not theirs.flag(actor.DYNAMIC):
        rows = next((key for key in actor.ROWS if theirs.has(key) and theirs.get(key) is not None), "")
        return replace(setting, why=rows) if rows else setting
    for rule in RULES:
        if (
            rule.lead
            and rule.lead == read_by
            and setting.path in rule.ours.split(", ")
            and theirs.has(rule.key)
            and theirs.get(rule.key) is not None
        ):
            return replace(setting, why=rule.key)
    return setting


def _outcome(said: VerlSetting, theirs: Theirs, problems: list[str]) -> KeyTranslation | None:
    """Return the translation of a key; where there is none, add to the problems and return None."""
    rule = rule_for(said.key)
    if rule is None:
        problems.append(f"{said.where}: unknown key {said.shown}{_near(said.shown)}")
        return None
    try:
        outcome = rule.convert(said.value, theirs)
    except WrongValue as error:
        whose = theirs.said.get(error.key, said)
        named = whose.shown if whose.key == error.key else error.key
        problem = f"{whose.where}: {named or said.shown}: {error}"
        problems += [problem] * (problem not in problems)
        return None
    if outcome.verdict is KeyVerdict.REFUSED:
        problems.append(f"{said.where}: {said.shown}={said.value!r} is refused: {outcome.words}")
        return None
    return outcome


def _near(key: str) -> str:
    """Suggest a similar known key; "" for none."""
    section, _, leaf = key.rpartition(".")
    known_keys = {*_EXACT, *BELOW_SECTIONS}
    beside = {known.rpartition(".")[2]: known for known in known_keys if known.rpartition(".")[0] == section}
    close = [beside[name] for name in difflib.get_close_matches(leaf, beside, n=1, cutoff=0.7)]
    same = [known for known in known_keys if known.rpartition(".")[2] == leaf]
    near = close or same or difflib.get_close_matches(key, sorted(known_keys), n=1, cutoff=0.7)
    best = max(near, key=lambda known: difflib.SequenceMatcher(None, known, key).ratio(), default="")
    hint = f"; did you mean {best}?" if best else ""
    return f"{hint} `~{key}` after the file leaves it out"


def _add_ours(theirs: Theirs, found_tasks: Collection[str], ours: dict[str, Setting]) -> None:
    for name, task in rewards.tasks_of(theirs, found_tasks).items():
        path = f"scorers.tasks.{name}"
        ours[path] = Setting(path=path, value=task, why=_why_task(theirs, name))
    if rewards.asks_served(theirs, found_tasks) and (section := serve_section(theirs)):
        ours["judge.serve"] = Setting(path="judge.serve", value=section, why="vllm serve")
    for path, (value, why) in BESIDE.items():
        ours.setdefault(path, Setting(path=path, value=value, why=why))
    if "evaluation.every" in ours:
        path, value, why = EVALUATION
        ours.setdefault(path, Setting(path=path, value=value, why=why))
    else:
        for path in [path for path in ours if path.startswith("evaluation.")]:
            del ours[path]
    # A limit of prompts sets no steps: it is a bound besides the epochs.
    are_steps_said = theirs.get("trainer.total_training_steps") is not None
    if are_steps_said and ours["learner.epochs"].why.startswith(DEFAULT):
        del ours["learner.epochs"]


def _why_task(theirs: Theirs, name: str) -> str:
    if rewards.has_function(theirs):
        return rewards.FUNCTION
    if rewards.asks_server(theirs):
        return rewards.API
    return (
        f"{rewards.MODEL}.tinyv_setup"
        if name == "rubric" and rewards.has_rubric(theirs)
        else "rows of the data"
    )


def rules_in_words(keys: Sequence[str] = ()) -> list[str]:
    """Return the translation of each of verl's keys, a line each, as `--keys` shows it.

    Args:
        keys: keys or parts of them, to select rules; empty: every rule.
    Raises:
        UsageError: no rule covers such a key, or has it in its name.
    """
    chosen: dict[str, KeyRule] = {}
    for key in keys:
        own = rule_for(key)
        found = [*([own] if own else []), *(rule for rule in RULES if key in rule.key)]
        if not found:
            raise UsageError(f"no key of verl's that is known here has {key!r} in it")
        chosen |= {rule.key: rule for rule in found}
    return [_in_words(rule) for rule in (chosen.values() if keys else RULES)]


def _in_words(rule: KeyRule) -> str:
    ours = f" {rule.ours}" if rule.ours else ""
    default = f" (verl's default: {rule.default})" if rule.default is not UNSET else ""
    return f"{rule.key}: {rule.verdict}{ours}; {rule.about}{default}"
