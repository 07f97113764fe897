"""What II-Thought and Reasoning360 call the settings of a judge, as keys of its endpoint here.

In: variables of the environment, and which judge is meant. Out: keys of `config.endpoint.EndpointConfig`, each with its
value and the variable that said it. Called by `config.loading`, for runs and for rows that are scored without one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

URL: Final = "LLM_JUDGE_BASE_URL"
STEM_URL: Final = "STEM_LLM_JUDGE_URL"
MATH_URL: Final = "MATH_LLM_JUDGE_URL"
# What only II-Thought lets one say of its judge. The key is no setting: see `EndpointConfig.key_variable`.
_BESIDE: Final = {
    "LLM_JUDGE_MODEL": "model",
    "LLM_JUDGE_MAX_TOKENS": "max_tokens",
    "LLM_JUDGE_TEMPERATURE": "temperature",
}
VARIABLES: Final = (URL, STEM_URL, MATH_URL, *_BESIDE)

# Whose address a judge has: the first that is set. That of one kind of rows comes last for a judge of all kinds.
_URLS: Final[Mapping[str, tuple[str, ...]]] = {
    "stem": (STEM_URL, URL),
    "math": (MATH_URL, URL),
    "rubric": (URL,),
    "tinyv": (URL,),
}
_ANY: Final = (URL, STEM_URL, MATH_URL)
# Types of rows whose name, as that of a task, says the judge.
VARIANT_OF_TASK: Final[Mapping[str, str]] = {"stem_llm_judge": "stem", "math_llm_judge": "math"}


class Said(NamedTuple):
    """A setting and where it comes from."""

    value: str | list[str]
    variable: str


def endpoint_settings(environment: Mapping[str, str], variant: str) -> dict[str, Said]:
    """What the variables say of one judge.

    Args:
        environment: those of VARIABLES that are set, and anything else.
        variant: of `config.scorers.JudgeConfig`.
    """
    known = {name: value for name in VARIABLES if (value := environment.get(name, "").strip())}
    wanted = [name for name in _URLS.get(variant, _ANY) if name in known]
    if not wanted:
        return {key: Said(known[name], name) for name, key in _BESIDE.items() if name in known}
    url = wanted[0]
    if url == STEM_URL and variant not in _URLS and known.get(MATH_URL, known[url]) != known[url]:
        log.warning(
            "judges_disagree used=%s ignored=%s: rows of type math_llm_judge need a task of that name",
            url,
            MATH_URL,
        )
    settings = {"urls": Said([known[url]], url)}
    if url == URL:
        settings |= {key: Said(known[name], name) for name, key in _BESIDE.items() if name in known}
    return settings
