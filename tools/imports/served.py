"""Convert a script's `vllm serve` to `judge.serve`: a model that the run serves itself.

In: `Theirs`, with the models that a script serves and the options of those calls. Out: the section, and an account of
each option. `millrace up` starts that server before every other role; options without a key here go to
`judge.serve.arguments` unchanged. A model that is unknown before the script runs stays the script's own. Pure; used by
`tools.imports.translation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from config.endpoint import EndpointConfig
from tools.imports.rule import Account, KeyTranslation, nothing_here, number, settings, whole
from tools.imports.theirs import UNKNOWN, Served, Theirs, VerlSetting, WrongValue

SERVE: Final = "judge.serve"
_READ: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "--tensor-parallel-size": ("tensor_parallel", whole),
    "-tp": ("tensor_parallel", whole),
    "--max-model-len": ("max_model_len", whole),
    "--gpu-memory-utilization": ("gpu_memory_utilization", number),
    "--max-num-seqs": ("max_num_seqs", whole),
    "--enforce-eager": ("enforce_eager", lambda _value: True),
}
_NOTHING: Final = {
    "--model": "the model is said",
    "--port": "a free port of loopback",
    "--host": "loopback: scorers of this machine ask it",
    "--api-key": "`millrace up` makes one of its own",
    "--served-model-name": "scorers ask by the name that it lists",
    "--disable-log-requests": "vLLM's lines go to the run's own logs",
}


_GPUS: Final = (
    "where the script's GPUs were the policy's too, judge.serve.gpus gives it its own, or judge.serve.kv_cache_mb a "
    "fixed size"
)


def _served(theirs: Theirs) -> Served | None:
    """Return the model for the scorers: the first served one."""
    return next(iter(theirs.served.values()), None)


def serve_section(theirs: Theirs) -> dict[str, Any] | None:
    """Return `judge.serve`; None where no model is served, or its name is unknown."""
    served = _served(theirs)
    if served is None or UNKNOWN in str(served.value):
        return None
    section: dict[str, Any] = {"model": served.value}
    arguments: list[str] = []
    for option in served.options:
        found = _converted(option)
        section |= {key: value for key, value in found.items() if key != "arguments"}
        arguments += found.get("arguments", [])
    return section | ({"arguments": arguments} if arguments else {})


def reply_tokens(section: dict[str, Any]) -> int | None:
    """Return the longest reply where the default does not fit `max_model_len`; None: the default."""
    longest, usual = section.get("max_model_len"), EndpointConfig.model_fields["max_tokens"].default
    return None if longest is None or longest > usual else max(1, longest // 2)


def accounts_of_served(theirs: Theirs, *, asked: bool) -> list[Account]:
    """Account for each served model, and for each option of its call.

    Args:
        theirs: the sources.
        asked: whether a scorer of the run asks a served model.
    """
    accounts = []
    for served in theirs.served.values():
        why = _why_not(served, theirs, asked=asked)
        outcome = settings(_GPUS, judge__serve__model=served.value) if why is None else nothing_here(why)
        accounts.append(Account(said=served, outcome=outcome))
        accounts += [
            Account(said=_shown(option), outcome=_outcome(option) if why is None else nothing_here(why))
            for option in served.options
        ]
    return accounts


def _why_not(served: Served, theirs: Theirs, *, asked: bool) -> str | None:
    if not asked:
        return "no scorer of this run asks a served model"
    if served is not _served(theirs):
        return "scorers ask the first model that the script serves"
    if UNKNOWN in str(served.value):
        return "the model is not known before the script runs: serve it as the script does"
    return None


def _shown(option: VerlSetting) -> VerlSetting:
    """Return an option with secrets masked."""
    value = "..." if option.key == "--api-key" else option.value
    return VerlSetting(key=f"vllm serve {option.key}", value=value, where=option.where)


def _outcome(option: VerlSetting) -> KeyTranslation:
    if UNKNOWN in str(option.value):
        return nothing_here("its value is not known before the script runs")
    if option.key in _NOTHING:
        return nothing_here(_NOTHING[option.key])
    found = _converted(option)
    outcome = settings("as it is" if "arguments" in found else "")
    return KeyTranslation(
        verdict=outcome.verdict,
        settings={f"{SERVE}.{key}": value for key, value in found.items()},
        words=outcome.words,
    )


def _converted(option: VerlSetting) -> dict[str, Any]:
    """Return an option in our section: a key, or words of `arguments`."""
    if option.key in _NOTHING or UNKNOWN in str(option.value):
        return {}
    if option.key in _READ:
        key, read = _READ[option.key]
        try:
            return {key: read(option.value)}
        except WrongValue:  # such as `32k`: vLLM parses it itself
            pass
    return {"arguments": [option.key, *([str(option.value)] if option.value != "" else [])]}
