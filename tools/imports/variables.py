"""Account for each variable that a script exports or an `.env` has.

In: `Theirs`, and the settings that those variables make here, by `config.other_names.aliases`. Out: an account of each:
used by software that runs here too, mapped to keys, without meaning, or unknown with the nearest known name. Values are
never shown: some are secrets. Pure; called by `tools.imports.command`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from config.layers import Leaf
from config.other_names.aliases import FORMAT_VERIFIER, SANDBOX_SERVERS, SANDBOX_URL, VARIABLES
from tools.imports.rule import Account, KeyTranslation, KeyVerdict, nothing_here
from tools.imports.theirs import Theirs, VerlSetting, texts

_KEPT: Final = "a secret: it stays in the environment, to be exported again"
_READ: Final = "read from the environment here too, to be exported again"
_USED: Final[Mapping[str, str]] = {
    "LLM_JUDGE_API_KEY": _KEPT,
    "OPENAI_API_KEY": _KEPT,
    "WANDB_API_KEY": _KEPT,
    "HF_TOKEN": _KEPT,
    "HUGGING_FACE_HUB_TOKEN": _KEPT,
    "HF_HOME": _READ,
    "CUDA_VISIBLE_DEVICES": _READ,
    "TOKENIZERS_PARALLELISM": _READ,
    "LD_LIBRARY_PATH": _READ,
    "PYTHONPATH": _READ,
    "PATH": _READ,
}
_OF_LOGGER: Final = ("WANDB_MODE", "WANDB_DISABLED")
# Variables of libraries that run here too, and of software that does not.
_OF_LIBRARIES: Final = re.compile(
    r"(WANDB|HF|TRANSFORMERS|CUDA|NCCL|TORCH|PYTORCH|VLLM|OMP|MKL|GLOO|TRITON|REDIS|MILLRACE|NVIDIA)_\w+"
)
_NOTHING: Final[Mapping[str, str]] = {
    "HYDRA_FULL_ERROR": "no Hydra here",
    "MASTER_ADDR": "ranks find each other by `millrace up`, and by docs/clusters.md on several machines",
    "MASTER_PORT": "ranks find each other by `millrace up`, and by docs/clusters.md on several machines",
    "PYTHONUNBUFFERED": "logs are written at once",
}
_ABSENT: Final = re.compile(r"(RAY|VERL|SGLANG|SGL|MEGATRON|HYDRA|SLURM)_\w+")
_JUDGES: Final = frozenset(VARIABLES)
KNOWN: Final = frozenset(
    {*VARIABLES, FORMAT_VERIFIER, SANDBOX_SERVERS, SANDBOX_URL, *_USED, *_NOTHING, *_OF_LOGGER}
)


def accounts_of_variables(theirs: Theirs, found: Sequence[Leaf]) -> tuple[Account, ...]:
    """Account for each variable.

    Args:
        theirs: the sources, with the variables.
        found: the settings that they make here, with the variable's name as place.
    """
    return tuple(
        Account(said=VerlSetting(key=name, value=None, where=one.where), outcome=_outcome(one, theirs, found))
        for name, one in theirs.environment.items()
    )


def _outcome(said: VerlSetting, theirs: Theirs, found: Sequence[Leaf]) -> KeyTranslation:
    name, servers = said.key, theirs.environment.get(SANDBOX_SERVERS)
    sets = {".".join(leaf.path): leaf.value for leaf in found if re.search(rf"\b{name}\b", leaf.where)}
    if name == SANDBOX_URL and servers is not None and str(servers.value).strip():
        return nothing_here(f"{SANDBOX_SERVERS} is set too, and has all of them")
    if sets:
        return KeyTranslation(verdict=KeyVerdict.MAPPED, settings=sets)
    if name in {SANDBOX_URL, SANDBOX_SERVERS}:
        return nothing_here("empty: the sandbox of this machine")
    if name == FORMAT_VERIFIER:
        return nothing_here(
            "the format has no share in a score: it is off, or no task is one that it is looked at for"
        )
    if name in _JUDGES:
        return nothing_here("no scorer of type judge asks by it")
    return _by_name(name, theirs)


def _by_name(name: str, theirs: Theirs) -> KeyTranslation:
    """Account for a variable that sets no key here by itself."""
    if name in _OF_LOGGER:
        return _of_logger(theirs)
    if name in _USED or _OF_LIBRARIES.fullmatch(name):
        return KeyTranslation(verdict=KeyVerdict.TAKEN, words=_USED.get(name, _READ))
    if name in _NOTHING or _ABSENT.fullmatch(name):
        return nothing_here(_NOTHING.get(name, "of a program that does not run here"))
    if name in theirs.own:
        return nothing_here("the script's or the file's own: its value stands where that used it")
    near = difflib.get_close_matches(name, sorted(KNOWN), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return KeyTranslation(verdict=KeyVerdict.UNKNOWN, words=f"nothing here reads it{hint}")


def _of_logger(theirs: Theirs) -> KeyTranslation:
    names: Any = theirs.get("trainer.logger")
    if names is None or "wandb" not in texts(names):
        return nothing_here("no logger is Weights & Biases'")
    return KeyTranslation(verdict=KeyVerdict.MAPPED, words="with trainer.logger: learner.loggers")
