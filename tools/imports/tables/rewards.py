"""Rules of scoring in verl, II-VERL, TinyV and RRM: `reward_model`, `reward_api`, `custom_reward_function`.

Their keys together make the run's tasks: `tasks_of` builds the sections, and each key's rule names its part of them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, get_args

from config.scorer_kinds import VerifierMode
from config.scorers import ScorersConfig
from tools.imports.rule import (
    KeyRule,
    KeyTranslation,
    flag,
    mapped,
    nothing,
    nothing_here,
    only,
    part_of,
    refused,
    settings,
    text,
    whole,
)
from tools.imports.served import reply_tokens, serve_section
from tools.imports.tables.multi_turn import environment_of
from tools.imports.theirs import Theirs, texts

API, FUNCTION, MODEL = "reward_api", "custom_reward_function", "reward_model"
OPTIONS: Final = (f"{FUNCTION}.reward_kwargs.", f"{MODEL}.reward_kwargs.")
OVERLONG: Final = (f"{MODEL}.overlong_buffer", f"{MODEL}.reward_kwargs.overlong_buffer_cfg")
# verl's own and Reasoning360's: they differ in the distribution of answers, not in the rewards.
MANAGERS: Final = frozenset(
    {
        "naive",
        "prime",
        "batch",
        "dapo",
        "async_dapo",
        "async_multi_process",
        "naive_parallel",
        "llm_judge",
        "limited",
    }
    | {"rate_limited", "remote", "async_mp"}
)
TASK: Final = "reward"  # the single task of a function or a server that scores every row
JUDGE_PORT: Final = 8000  # where TinyV and RRM look for their verifier
MODES: Final = frozenset(get_args(VerifierMode))
ASKING: Final = frozenset({"rubric", "tinyv"})  # scorers that ask TinyV's or RRM's verifier
UNUSED_SETUP: Final = "grade-ppo"  # set by RRM's script that trains the rubric model itself
OF_A_WORKER: Final = "of a reward model's own worker, which is not here"


def asks_server(theirs: Theirs) -> bool:
    """Return whether an old reward server scores."""
    return theirs.flag(f"{API}.enable")


def has_function(theirs: Theirs) -> bool:
    """Return whether the user's own function scores."""
    return bool(theirs.text(f"{FUNCTION}.path"))


def has_rubric(theirs: Theirs) -> bool:
    """Return whether TinyV's or RRM's verifier scores rows of `*_tinyv`."""
    return theirs.get(f"{MODEL}.tinyv_setup") in MODES


def tasks_of(theirs: Theirs, found: Collection[str]) -> dict[str, Any]:
    """Return `scorers.tasks`.

    Args:
        theirs: the sources.
        found: tasks of the local data, or suggested by their names.
    """
    if has_function(theirs):
        tasks: dict[str, Any] = {TASK: {"scorer": _function(theirs)}}
    elif asks_server(theirs):
        tasks = {TASK: {"scorer": _server(theirs)}}
    else:
        names = dict.fromkeys(["rubric", "math"] if has_rubric(theirs) else [], None)
        names |= dict.fromkeys(sorted(found) or ["math"], None)
        tasks = {name: {"scorer": _scorer(theirs, name)} for name in names}
    if (overlong := _overlong(theirs)) is not None:
        for task in tasks.values():
            task["penalties"] = {"overlong": overlong}
    if (environment := environment_of(theirs)) is not None:
        for task in tasks.values():
            task["environment"] = environment
    return tasks


def _scorer(theirs: Theirs, name: str) -> dict[str, Any]:
    if name in ASKING:
        section: dict[str, Any] = {"type": name}
        if endpoint := _judge(theirs):
            section["endpoint"] = endpoint
        if has_rubric(theirs):
            weight = theirs.number(f"{MODEL}.tinyv_weight") if theirs.has(f"{MODEL}.tinyv_weight") else 1.0
            section |= {"mode": theirs.text(f"{MODEL}.tinyv_setup"), "weight": weight}
        return section
    if name == "code" and theirs.get(f"{MODEL}.sandbox_fusion.memory_limit_mb") is not None:
        return {"type": name, "memory_mb": max(64, theirs.whole(f"{MODEL}.sandbox_fusion.memory_limit_mb"))}
    return {"type": name}


def asks_served(theirs: Theirs, found: Collection[str]) -> bool:
    """Return whether a scorer asks the model that a script serves; for `found`, see `tasks_of`."""
    tasks = tasks_of(theirs, found).values()
    return bool(theirs.served) and any(one["scorer"]["type"] in ASKING for one in tasks)


def _judge(theirs: Theirs) -> dict[str, Any]:
    """Return the endpoint of the verifier that a script serves, else the default one of TinyV and RRM."""
    if (section := serve_section(theirs)) is not None:
        tokens = reply_tokens(section)
        return {} if tokens is None else {"max_tokens": tokens}
    port = next(iter(theirs.served), JUDGE_PORT)
    return {"urls": [f"http://localhost:{port}"]}


def _function(theirs: Theirs) -> dict[str, Any]:
    path = Path(theirs.text(f"{FUNCTION}.path")).expanduser()
    section: dict[str, Any] = {
        "type": "verl_function",
        "path": str(path.resolve()) if path.exists() else str(path),
        "function": theirs.text(f"{FUNCTION}.name") or "compute_score",
    }
    options = {
        key.removeprefix(prefix): one.value
        for key, one in theirs.said.items()
        for prefix in OPTIONS
        if key.startswith(prefix) and not key.startswith(OVERLONG[1]) and key != f"{OPTIONS[1]}max_resp_len"
    }
    if options:
        section["options"] = options
    if theirs.text(f"{MODEL}.reward_manager") == "batch":
        section["takes_lists"] = True
    return section


def _server(theirs: Theirs) -> dict[str, Any]:
    calls = theirs.whole(f"{API}.max_workers") if theirs.has(f"{API}.max_workers") else 10
    return {
        "type": "reward_api",
        "urls": texts(theirs.get(f"{API}.api_url")),
        "timeout_s": theirs.number(f"{API}.timeout") if theirs.has(f"{API}.timeout") else 30.0,
        "workers": max(1, calls // ScorersConfig().workers),
    }


def _overlong(theirs: Theirs) -> dict[str, Any] | None:
    for section in OVERLONG:
        if theirs.flag(f"{section}.enable"):
            return {
                "buffer_tokens": theirs.whole(f"{section}.len"),
                "weight": theirs.number(f"{section}.penalty_factor") * _reward_scale(theirs),
                "max_tokens": theirs.whole("data.max_response_length"),
            }
    return None


def _reward_scale(theirs: Theirs) -> float:
    """Return the factor for verl's rewards: half, where its scorer gives +1 and -1, and scores are 1 and 0."""
    return 0.5 if theirs.paid and not has_function(theirs) else 1.0


def _factor(_value: Any, theirs: Theirs) -> KeyTranslation:
    if not any(theirs.flag(f"{section}.enable") for section in OVERLONG):
        return nothing_here("the buffer is off")
    if _reward_scale(theirs) < 1:
        return settings(f"half of it: verl pays {theirs.paid} +1 and -1, which are 1 and 0 here")
    return settings("as it is: a right answer is 1 and a wrong one 0; half of it where verl paid +1 and -1")


def _enable(value: Any, theirs: Theirs) -> KeyTranslation:
    if not flag(value):
        return nothing_here("off: the scorers here score")
    if not theirs.text(f"{API}.api_url"):
        return refused(f"{API}.api_url is missing")
    return settings(f"scorers.tasks.{TASK}, of type reward_api: the server goes on scoring")


def _of_api(words: str) -> Any:
    def convert(_value: Any, theirs: Theirs) -> KeyTranslation:
        return settings(words) if asks_server(theirs) else nothing_here(f"{API}.enable is off")

    return convert


def _dumps(value: Any, theirs: Theirs) -> KeyTranslation:
    if not value or not asks_server(theirs):
        return nothing_here("null: none are written" if not value else f"{API}.enable is off")
    return settings(learner__dumps__parquet=value, data__columns=["id"])


def _dumps_every(value: Any, theirs: Theirs) -> KeyTranslation:
    if not asks_server(theirs) or not theirs.get(f"{API}.save_dir"):
        return nothing_here(f"{API}.enable is off, or save_dir is unset")
    return settings(learner__dumps__parquet_every=max(0, whole(value)))


def _setup(value: Any, _theirs: Theirs) -> KeyTranslation:
    if value is None:
        return nothing_here("null: the scorers of the rows score")
    if text(value) in MODES:
        return settings("scorers.tasks.rubric.scorer.mode")
    if value == UNUSED_SETUP:
        return nothing_here(
            "no mode of the verifier: RRM sets it where it trains on `grade` rows, and reads it for none"
        )
    return refused(f"none of {', '.join(sorted(MODES))}, nor {UNUSED_SETUP}, which RRM sets and never reads")


def _path(value: Any, _theirs: Theirs) -> KeyTranslation:
    if not value:
        return nothing_here("null: the scorers here score")
    return settings(f"scorers.tasks.{TASK}, of type verl_function: every row goes to it")


def _of_function(words: str) -> Any:
    def convert(_value: Any, theirs: Theirs) -> KeyTranslation:
        return settings(words) if has_function(theirs) else nothing_here(f"{FUNCTION}.path is null")

    return convert


def _manager(value: Any, theirs: Theirs) -> KeyTranslation:
    if value == "batch" and has_function(theirs):
        return settings("takes_lists: true: the function gets lists")
    if value is not None and text(value) not in MANAGERS:
        return refused(
            f"none of {', '.join(sorted(MANAGERS))}: what another manager pays is not here; a scorer of type "
            "verl_function or custom can"
        )
    return nothing_here("scorers are a pool of processes beside the learner, whoever scores")


def _sandbox(value: Any, _theirs: Theirs) -> KeyTranslation:
    if not value:
        return nothing_here("null: the sandbox of this machine")
    url = str(value).rstrip("/").removesuffix("/run_code")
    return settings(scorers__sandbox_urls=[url])


def _memory(value: Any, _theirs: Theirs) -> KeyTranslation:
    return (
        nothing_here("null")
        if value is None
        else settings("scorers.tasks.code.scorer.memory_mb, where rows are of code")
    )


def _buffer(value: Any, _theirs: Theirs) -> KeyTranslation:
    return settings("penalties.overlong of each task") if flag(value) else nothing_here("off")


def of_overlong(section: str) -> tuple[KeyRule, ...]:
    """Return the rules of DAPO's buffer, in one of verl's two places for it."""
    lead, ours = f"{section}.enable", "scorers.tasks.*.penalties.overlong"
    return (
        mapped(lead, ours, "of each task", _buffer),
        part_of(f"{section}.len", lead, f"{ours}.buffer_tokens", "where it is on", is_switch=True),
        mapped(
            f"{section}.penalty_factor",
            f"{ours}.weight",
            "where it is on; half of it where verl pays +1 and -1: math_dapo, math, aime",
            _factor,
            default=1.0,
        ),
        nothing(f"{section}.log", "each penalty is a component of the score"),
        nothing(f"{section}.*", "of the buffer's log"),
    )


RULES: Final[tuple[KeyRule, ...]] = (
    mapped(f"{API}.enable", "scorers.tasks", "a scorer of type reward_api", _enable),
    mapped(f"{API}.api_url", "scorers.tasks.*.scorer.urls", "one, or a list", _of_api("urls")),
    mapped(f"{API}.timeout", "scorers.tasks.*.scorer.timeout_s", "seconds", _of_api("timeout_s")),
    mapped(
        f"{API}.max_workers",
        "scorers.tasks.*.scorer.workers",
        "calls at once, shared out among scorers.workers",
        _of_api("workers"),
    ),
    part_of(
        f"{API}.verification_info_column", "data.train_files", "data.train.verification_column", "as it is"
    ),
    mapped(
        f"{API}.save_dir",
        "learner.dumps.parquet, data.columns",
        "as it is; `id` travels with the rows",
        _dumps,
    ),
    mapped(
        f"{API}.save_freq",
        "learner.dumps.parquet_every",
        "steps, and not calls of the reward; 0 and below: held-out rounds alone",
        _dumps_every,
    ),
    mapped(f"{FUNCTION}.path", "scorers.tasks.*.scorer.path", "a scorer of type verl_function", _path),
    mapped(f"{FUNCTION}.name", "scorers.tasks.*.scorer.function", "as it is", _of_function("function")),
    mapped(
        f"{FUNCTION}.reward_kwargs.*",
        "scorers.tasks.*.scorer.options",
        "as they are",
        _of_function("options"),
        is_open=True,
    ),
    mapped(
        f"{FUNCTION}.reward_kwargs", "scorers.tasks.*.scorer.options", "as they are", _of_function("options")
    ),
    only(
        f"{MODEL}.enable",
        "off: the scorers here score",
        False,
        else_="serve the model, and ask it with a scorer of type judge or rubric",
    ),
    mapped(
        f"{MODEL}.reward_manager",
        "scorers.tasks.*.scorer.takes_lists",
        "batch: a function that takes lists",
        _manager,
    ),
    mapped(
        f"{MODEL}.tinyv_setup",
        "scorers.tasks.rubric.scorer.mode",
        "tinyv_only, addon or mixed; grade-ppo is read for no row; refused otherwise",
        _setup,
    ),
    part_of(
        f"{MODEL}.tinyv_weight", f"{MODEL}.tinyv_setup", "scorers.tasks.rubric.scorer.weight", "as it is"
    ),
    mapped(f"{MODEL}.sandbox_fusion.url", "scorers.sandbox_urls", "without its path", _sandbox),
    mapped(
        f"{MODEL}.sandbox_fusion.memory_limit_mb", "scorers.tasks.code.scorer.memory_mb", "as it is", _memory
    ),
    nothing(
        f"{MODEL}.sandbox_fusion.*", "a server that is busy says so, and is left alone as long as it asks"
    ),
    *(rule for section in OVERLONG for rule in of_overlong(section)),
    part_of(
        f"{MODEL}.reward_kwargs.max_resp_len",
        f"{OVERLONG[1]}.enable",
        "scorers.tasks.*.penalties.overlong.max_tokens",
        "data.max_response_length says it",
    ),
    mapped(
        f"{MODEL}.reward_kwargs.*",
        "scorers.tasks.*.scorer.options",
        "as they are",
        _of_function("options"),
        is_open=True,
    ),
    only(
        f"{MODEL}.reward_loop.source",
        "register: a manager of verl's",
        "register",
        else_="a manager from a file of yours: a scorer of type verl_function or custom can",
    ),
    nothing(f"{MODEL}.reward_loop.*", "of reward_loop.source"),
    nothing(f"{MODEL}.launch_reward_fn_async", "scorers never hold the learner up"),
    nothing(f"{MODEL}.*", OF_A_WORKER),
    nothing("reward_manager.*", "scorers are a pool of processes beside the learner, whoever scores"),
)
