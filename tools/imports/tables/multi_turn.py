"""Rules of verl's section `actor_rollout_ref.rollout.multi_turn`: episodes with tools.

Its keys together make one section, `environment_of`, for each task of the run (`tables.rewards.tasks_of`).
"""

from __future__ import annotations

from typing import Any, Final

from tools.imports.rule import (
    Convert,
    KeyRule,
    KeyTranslation,
    flag,
    mapped,
    nothing,
    nothing_here,
    only,
    refused,
    settings,
    text,
)
from tools.imports.theirs import Theirs
from tools.imports.versions import VERSIONS

SECTION: Final = "actor_rollout_ref.rollout.multi_turn"
ENABLE: Final = f"{SECTION}.enable"
FILES: Final = (f"{SECTION}.tool_config_path", f"{SECTION}.function_tool_path")
TURNS: Final = (f"{SECTION}.max_assistant_turns", f"{SECTION}.max_turns")  # the second is an older name
USER_TURNS, LONGEST = f"{SECTION}.max_user_turns", f"{SECTION}.max_tool_response_length"
SIDE: Final = f"{SECTION}.tool_response_truncate_side"
OURS: Final = "scorers.tasks.*.environment"
KEPT: Final = {"left": "start", "right": "end", "middle": "both"}  # verl names the kept side
MOST_TURNS: Final = 1000  # where verl's only bound is the length of the answer
LOOPS: Final = VERSIONS.index("0.7")  # the first version in which agent loops play every episode
CUTS: Final = VERSIONS.index("0.5")  # the first one that truncates tools' answers
NOTE: Final = (
    "environment.python has to name a Python that has verl: the classes of your tools derive from verl's, and are "
    "imported by it"
)


def plays(theirs: Theirs) -> bool:
    """Return whether answers have several turns, with tools."""
    return theirs.flag(ENABLE) and any(theirs.text(key) for key in FILES)


def environment_of(theirs: Theirs) -> dict[str, Any] | None:
    """Return the environment's section; None for answers of one turn."""
    if not plays(theirs):
        return None
    section: dict[str, Any] = {"type": "verl_tools"}
    section |= {key.rpartition(".")[2]: theirs.text(key) for key in FILES if theirs.text(key)}
    bounds = [theirs.whole(key) for key in TURNS if theirs.get(key) is not None]
    if theirs.get(USER_TURNS) is not None:
        bounds.append(theirs.whole(USER_TURNS) + 1)
    section["max_turns"] = min([bound for bound in bounds if bound > 0], default=MOST_TURNS)
    is_loop = theirs.version >= LOOPS or theirs.text("actor_rollout_ref.rollout.mode") == "async"
    section["instances"] = "call" if is_loop else "episode"
    if theirs.version >= CUTS:
        section["result_characters"] = theirs.whole(LONGEST)
        section["result_kept"] = KEPT[theirs.text(SIDE)]
    return section


def _enable(value: Any, theirs: Theirs) -> KeyTranslation:
    if not flag(value):
        return nothing_here("off: an answer is one turn")
    if not plays(theirs):
        return refused(f"it has no tools: name them by {' or '.join(FILES)}")
    return settings(f"{OURS}, of type verl_tools")


def _part(words: str) -> Convert:
    """Leave a value to the section that all keys make together."""

    def convert(_value: Any, theirs: Theirs) -> KeyTranslation:
        return settings(words) if plays(theirs) else nothing_here(f"{ENABLE} is off")

    return convert


def _side(value: Any, theirs: Theirs) -> KeyTranslation:
    if text(value) not in KEPT:
        return refused(f"none of {', '.join(KEPT)}")
    return _part("result_kept")(value, theirs)


def data_tools(value: Any, theirs: Theirs) -> KeyTranslation:
    """Find no meaning for the tool settings of `data`, except those of an episode."""
    if not value or plays(theirs):
        return nothing_here("tools count in a prompt's length, wherever an episode has them")
    return refused(f"an answer is one turn without tools: {ENABLE} and {FILES[0]} say which tools there are")


RULES: Final[tuple[KeyRule, ...]] = (
    mapped(ENABLE, OURS, "with tools: an environment of type verl_tools; without any it is refused", _enable),
    mapped(FILES[0], f"{OURS}.tool_config_path", "as it is, where it is on", _part("tool_config_path")),
    mapped(FILES[1], f"{OURS}.function_tool_path", "as it is, where it is on", _part("function_tool_path")),
    mapped(
        TURNS[0],
        f"{OURS}.max_turns",
        f"as it is; null: {MOST_TURNS}, and data.max_response_length",
        _part("max_turns"),
    ),
    mapped(TURNS[1], f"{OURS}.max_turns", "as it is", _part("max_turns")),
    mapped(
        USER_TURNS, f"{OURS}.max_turns", "one more, for the last turn is the policy's", _part("max_turns")
    ),
    mapped(
        LONGEST, f"{OURS}.result_characters", "as it is, from 0.5 on", _part("result_characters"), default=256
    ),
    mapped(
        SIDE,
        f"{OURS}.result_kept",
        "left: start, right: end, middle: both; verl names the side that stays",
        _side,
        default="middle",
    ),
    only(
        f"{SECTION}.interaction_config_path",
        "null: nobody but tools answers",
        "",
        else_="a user that an interaction plays is an environment of your own here: type custom",
    ),
    only(f"{SECTION}.completion_callback", "null", "", else_="what it does is not here"),
    only(f"{SECTION}.num_repeat_rollouts", "null", else_="a group is one prompt, sampled group_size times"),
    nothing(
        f"{SECTION}.max_parallel_calls", "every call of a message is answered; verl leaves out those behind"
    ),
    nothing(f"{SECTION}.format", "the model's chat template says how calls are written"),
    nothing(f"{SECTION}.*", "what was sampled is never tokenized again"),
)
