"""Read other systems' environment variables as keys of a configuration.

In: the environment's variables and the settings of our own layers. Out: keys with their values, each with the variable
that set it. Pure functions; called by `config.loading` for runs, and by `config.other_names.services` for rows without
one. II-Thought and Reasoning360 name a judge and the servers of a sandbox; II-Thought has a switch for the format.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from config.layers import Leaf

log = logging.getLogger(__name__)

FORMAT_VERIFIER: Final = "USE_FORMAT_VERIFIER"
_FORMATTED: Final = frozenset(
    {"math", "code", "swe", "judge"}
)  # scorers for which II-Thought also checks the format

SANDBOX_SERVERS: Final = "SANDBOX_FUSION_SERVERS"  # several
SANDBOX_URL: Final = "FUSION_SANDBOX_URL"  # one

URL: Final = "LLM_JUDGE_BASE_URL"
STEM_URL: Final = "STEM_LLM_JUDGE_URL"
MATH_URL: Final = "MATH_LLM_JUDGE_URL"
# Settings of a judge that only II-Thought has. The API key is not among them: see `EndpointConfig.key_variable`.
_BESIDE: Final = {
    "LLM_JUDGE_MODEL": "model",
    "LLM_JUDGE_MAX_TOKENS": "max_tokens",
    "LLM_JUDGE_TEMPERATURE": "temperature",
}
VARIABLES: Final = (URL, STEM_URL, MATH_URL, *_BESIDE)

# Use the first of these addresses that is set. For a judge of all rows, an address for one kind comes last.
_URLS: Final[Mapping[str, tuple[str, ...]]] = {
    "stem": (STEM_URL, URL),
    "math": (MATH_URL, URL),
    "rubric": (URL,),
    "tinyv": (URL,),
}
_ANY: Final = (URL, STEM_URL, MATH_URL)
# Types of rows whose name, as the name of a task, selects the judge.
VARIANT_OF_TASK: Final[Mapping[str, str]] = {"stem_llm_judge": "stem", "math_llm_judge": "math"}


class AliasedSetting(NamedTuple):
    """A setting, and the variable that set it."""

    value: str | list[str]
    variable: str


def endpoint_settings(environment: Mapping[str, str], variant: str) -> dict[str, AliasedSetting]:
    """Read the variables of one judge.

    Args:
        environment: all variables.
        variant: of `config.scorer_kinds.JudgeConfig`.
    """
    known = {name: value for name in VARIABLES if (value := environment.get(name, "").strip())}
    wanted = [name for name in _URLS.get(variant, _ANY) if name in known]
    if not wanted:
        return {key: AliasedSetting(known[name], name) for name, key in _BESIDE.items() if name in known}
    url = wanted[0]
    if url == STEM_URL and variant not in _URLS and known.get(MATH_URL, known[url]) != known[url]:
        log.warning(
            "judges_disagree used=%s ignored=%s: rows of type math_llm_judge need a task of that name",
            url,
            MATH_URL,
        )
    settings = {"urls": AliasedSetting([known[url]], url)}
    if url == URL:
        settings |= {key: AliasedSetting(known[name], name) for name, key in _BESIDE.items() if name in known}
    return settings


def sandbox_servers(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Read the sandbox's servers: FUSION_SANDBOX_URL has one, SANDBOX_FUSION_SERVERS several, with commas or spaces.

    Raises:
        ConfigError: an address contains a password, which would be stored with the run's configuration.
    """
    servers = tuple(environment.get(SANDBOX_SERVERS, "").replace(",", " ").split())
    single = tuple(environment.get(SANDBOX_URL, "").split())
    for url in servers + single:
        if "@" in url:
            raise _refused(f"{SANDBOX_URL}, {SANDBOX_SERVERS}: a sandbox's address has no password in it")
    if servers and not set(single) <= set(servers):
        log.warning(
            "sandbox_urls_disagree used=%s ignored=%s servers=%s",
            SANDBOX_SERVERS,
            SANDBOX_URL,
            ",".join(servers),
        )
    return servers or single


def settings_of(environment: Mapping[str, str], said: Sequence[Leaf]) -> list[Leaf]:
    """Set our keys from other systems' variables.

    Args:
        environment: all variables.
        said: the values of files, of our own variables and of the command line, which name the tasks.
    Raises:
        ConfigError: the value of a variable is not allowed.
    """
    leaves = []
    if urls := sandbox_servers(environment):
        where = f"the environment ({SANDBOX_SERVERS} or {SANDBOX_URL})"
        leaves.append(Leaf(("scorers", "sandbox_urls"), list(urls), where))
    tasks = {leaf.path: leaf.value for leaf in said if leaf.path[:2] == ("scorers", "tasks")}
    for path, kind in tasks.items():
        if path[-2:] == ("scorer", "type") and kind == "judge":
            variant = VARIANT_OF_TASK.get(path[2]) or tasks.get((*path[:-1], "variant"), "")
            leaves += [
                Leaf((*path[:-1], "endpoint", key), value, f"the environment ({variable})")
                for key, (value, variable) in endpoint_settings(environment, variant).items()
            ]
    if _is_on(environment.get(FORMAT_VERIFIER, ""), FORMAT_VERIFIER):
        names = dict.fromkeys(path[2] for path in tasks) or {"math": None}
        leaves += [
            Leaf(("scorers", "tasks", name, "format", "mode"), "mix", f"the environment ({FORMAT_VERIFIER})")
            for name in names
            if tasks.get(("scorers", "tasks", name, "scorer", "type"), "math") in _FORMATTED
        ]
    return leaves


def _is_on(text: str, variable: str) -> bool:
    known = {
        "": False,
        **dict.fromkeys(("1", "true", "yes", "on"), True),
        **dict.fromkeys(("0", "false", "no", "off"), False),
    }
    if text.strip().lower() not in known:
        raise _refused(f"{variable} says whether, true or false; got {text!r}")
    return known[text.strip().lower()]


def _refused(why: str) -> Exception:
    """Return a ConfigError. Its module needs every section of a run, which those who read a row do without."""
    from config.explanations import ConfigError

    return ConfigError(why)
