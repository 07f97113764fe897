"""Account for the options of verl's call: `--backend`, `--config-name`, and those of its launcher.

In: `Theirs`. Out: an account of each, and problems: an unknown option, or a backend that II-VERL does not have. Pure;
used by `tools.imports.translation`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from tools.imports.rule import Account, KeyTranslation, KeyVerdict, nothing_here
from tools.imports.theirs import Theirs, VerlSetting

BACKENDS: Final = frozenset({"fsdp", "fsdp2", "megatron"})
_FILE: Final = "names the configuration that was read"
_OF_HYDRA: Final = "of Hydra's own output"
_CALL: Final[Mapping[str, str]] = {
    "-m": "the trainer",
    "--config": _FILE,
    "--config-path": _FILE,
    "--config_path": _FILE,
    "--config-name": _FILE,
    "--config_name": _FILE,
    "--cn": _FILE,
    "--cp": _FILE,
    "-cn": _FILE,
    "-cp": _FILE,
    "--backend": "the learner is DeepSpeed's: learner.zero",
    "--cfg": _OF_HYDRA,
    "--help": _OF_HYDRA,
    "--hydra-help": _OF_HYDRA,
    "--info": _OF_HYDRA,
    "--package": _OF_HYDRA,
    "--resolve": _OF_HYDRA,
    "--run": _OF_HYDRA,
    "--version": _OF_HYDRA,
}
_LAUNCHER: Final = "of what starts verl's processes: `millrace up` starts those here"
_READS: Final = frozenset({_FILE, "the trainer"})


def option_problems(theirs: Theirs) -> list[str]:
    """Name each unknown option of the call, and an unknown backend."""
    problems = []
    for option in theirs.options:
        if option.key not in _CALL:
            near = difflib.get_close_matches(option.key, _CALL, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(f"{option.where}: unknown option {option.key}{hint}")
        elif option.key == "--backend" and not set(str(option.value).split("/")) <= BACKENDS:
            problems.append(
                f"{option.where}: --backend={option.value!r} is refused: none of {', '.join(sorted(BACKENDS))}"
            )
    return problems


def accounts_of_call(theirs: Theirs) -> list[Account]:
    """Account for each option of the call, and of its launcher."""
    return [
        *(Account(said=option, outcome=_outcome(option)) for option in theirs.options),
        *(Account(said=option, outcome=nothing_here(_LAUNCHER)) for option in theirs.launcher),
    ]


def _outcome(option: VerlSetting) -> KeyTranslation:
    words = _CALL[option.key]
    return KeyTranslation(verdict=KeyVerdict.TAKEN if words in _READS else KeyVerdict.NOTHING, words=words)
