"""The tools `python` and `bash`: what the policy writes runs behind the walls, and keeps its state for an episode."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from broker.messages import Turn
from config.episodes.environments import ToolsConfig
from sandbox.choice import best_local
from sandbox.program import SandboxMissing
from tests.support.played import Played, played, said
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    try:
        best_local().close()
    except SandboxMissing as error:
        pytest.skip(str(error))
    section = {"type": "tools", "programs": ["python", "bash"], "program_deadline_s": 1.0}
    with played({"run": section}, episodes_per_child=4) as made:
        yield made


def asks(tool: str, text: Any, *, parameter: str | None = None) -> Turn:
    name = parameter or {"python": "code", "bash": "command"}[tool]
    return {**said(""), "tool_calls": [{"function": {"name": tool, "arguments": json.dumps({name: text})}}]}


def answers(play: Played, *turns: Turn) -> list[Turn]:
    async def whole() -> list[Turn]:
        episode, _ = await play.begin("run")
        try:
            return [(await episode.step(turn)).messages[0] for turn in turns]
        finally:
            await episode.close()

    return play.wait(whole())


def test_state_lasts_for_an_episode_and_no_longer(play: Played) -> None:
    first = answers(
        play, asks("python", "x = 6 * 7"), asks("python", "print(x)"), asks("bash", "echo hi >a; ls")
    )
    assert [message["content"] for message in first] == ["", "42", "a"]
    assert not any("is_error" in message for message in first)
    (second,) = answers(play, asks("python", "x"))
    assert "NameError: name 'x' is not defined" in second["content"]
    assert second["is_error"] is True


def test_a_program_that_hangs_costs_its_state_and_not_the_episode(play: Played) -> None:
    hung, after = answers(play, asks("bash", "sleep 60"), asks("bash", "echo again"))
    assert "no end within 1 s: the session was ended" in hung["content"]
    assert (hung["is_error"], after["content"]) == (True, "again")


def test_programs_see_neither_the_episodes_process_nor_its_variables(play: Played) -> None:
    looks = "import os; print(os.getppid(), sorted(os.environ))"
    (seen, refused, odd) = answers(
        play, asks("python", looks), asks("python", "1", parameter="text"), asks("bash", 5)
    )
    assert str(os.getpid()) not in seen["content"].split()[0]
    assert "PYTHONPATH" not in seen["content"]
    assert refused["content"] == "python: it takes code, and nothing else"
    assert odd["content"] == "bash: command is of type string, got integer 5"


def test_nothing_of_an_ended_episode_is_left(play: Played) -> None:
    def left() -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                    if b"4242.5" in file.read():
                        found.append(pid)
            except OSError:
                continue
        return found

    async def begin() -> Any:
        episode, _ = await play.begin("run")
        await episode.step(asks("bash", "sleep 4242.5 & disown"))
        return episode

    episode = play.wait(begin())
    wait_until(left)
    (task,) = play.environments._tasks.values()
    task._children[-1].kill()  # no goodbye, as at a deadline
    wait_until(lambda: not left())
    play.wait(episode.close())


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"python": "/usr/bin/python3"}, "Millrace's own interpreter"),
        ({"program_deadline_s": 60}, "has to be less than step_deadline_s=60"),
    ],
)
def test_a_section_that_cannot_work_is_refused(section: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ToolsConfig.model_validate({"programs": ["python"], **section})
