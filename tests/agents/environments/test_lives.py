"""The environments' processes: they begin anew where they died, end with the worker, and see none of its secrets."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.environments.seam import Disturbed, EnvironmentFailed
from config.episodes.environments import CustomEnvironmentConfig
from tests.support.paths import ROOT
from tests.support.played import Played, custom, played, said
from tests.support.waiting import wait_in_loop, wait_until_gone

pytestmark = pytest.mark.process


async def pids(play: Played) -> tuple[Any, list[int]]:
    """An episode that goes on, and its processes: the child, its parent, and what the child started."""
    episode, _ = await play.begin("guess")
    step = await episode.step(said("pids"))
    return episode, [int(word) for word in str(step.messages[0]["content"]).split()]


def test_an_episodes_processes_end_with_it() -> None:
    with played({"guess": custom("Guess")}) as play:
        episode, (child, parent, sleeper) = play.wait(pids(play))
        play.wait(episode.close())
        wait_until_gone(child, sleeper)
        os.kill(parent, 0)
    wait_until_gone(parent)


def test_a_parent_process_that_died_is_started_again_and_its_episodes_are_disturbed() -> None:
    with played({"guess": custom("Guess")}) as play:
        episode, (child, parent, sleeper) = play.wait(pids(play))
        os.kill(parent, signal.SIGKILL)
        wait_until_gone(child)
        with pytest.raises(Disturbed):
            play.wait(episode.step(said("7")))
        play.wait(episode.close())
        wait_until_gone(sleeper)
        (step,) = play.wait(play.say("guess", "7"))
        assert step.reward == 1.0


def test_an_episode_whose_parent_process_is_killed_as_it_forks_is_disturbed() -> None:
    """An `OSError` of a descriptor that was closed twice ended the worker."""
    with played({"guess": custom("Guess")}, episodes_per_child=1) as play:
        first, (_, parent, _) = play.wait(pids(play))
        os.kill(parent, signal.SIGSTOP)

        async def killed() -> None:
            beginning = asyncio.ensure_future(play.begin("guess"))
            (task,) = play.environments._tasks.values()
            await wait_in_loop(lambda: bool(task._parent and task._parent._asked))
            os.kill(parent, signal.SIGKILL)
            await beginning

        with pytest.raises(Disturbed, match="ended by SIGKILL as it forked"):
            play.wait(killed())
        play.wait(first.close())
        assert play.wait(play.say("guess", "7"))[0].reward == 1.0


def test_a_worker_without_room_for_another_process_says_so_and_plays_on() -> None:
    with played({"guess": custom("Guess")}) as play:
        episode, _ = play.wait(play.begin("guess"))
        most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 1, hard))
        try:
            with pytest.raises(EnvironmentFailed, match=r"no process for an episode.*Too many open files"):
                play.wait(play.begin("guess"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        assert play.wait(episode.step(said("7"))).reward == 1.0
        play.wait(episode.close())


def test_what_does_not_start_is_named_at_once_and_tried_again_after_a_pause() -> None:
    with played(
        {"none": custom("NoStep"), "nowhere": {**custom("x"), "import_path": "no_such_module:X"}}
    ) as play:
        with pytest.raises(EnvironmentFailed, match="NoStep has no step") as caught:
            play.wait(play.begin("none"))
        assert (caught.value.stage, caught.value.kind, caught.value.is_policys) == ("start", "error", False)
        with pytest.raises(EnvironmentFailed) as again:
            play.wait(play.begin("none"))
        assert str(again.value) == str(caught.value)
        with pytest.raises(EnvironmentFailed, match="No module named 'no_such_module'"):
            play.wait(play.begin("nowhere"))


def test_imports_have_a_deadline_and_an_interpreter_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text("import os; print('left early'); os._exit(5)", encoding="utf-8")
    leaving = {**custom("x"), "import_path": "leaving:X"}
    (tmp_path / "sleepy.py").write_text("import time; time.sleep(100)", encoding="utf-8")
    slow = {**custom("x"), "import_path": "sleepy:X", "start_deadline_s": 0.4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with played(
            {"slow": slow, "gone": custom("Guess", python="/nowhere/python"), "leaving": leaving}
        ) as play:
            with pytest.raises(EnvironmentFailed, match=r"start_deadline_s=0\.4") as caught:
                play.wait(play.begin("slow"))
            assert (caught.value.stage, caught.value.kind) == ("start", "deadline")
            with pytest.raises(
                EnvironmentFailed, match="it ended with exit code 5\nit printed last:\nleft early"
            ):
                play.wait(play.begin("leaving"))
            with pytest.raises(EnvironmentFailed, match="/nowhere/python can't be started"):
                play.wait(play.begin("gone"))


def test_children_see_no_secret_but_those_that_a_task_names(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "REDIS_URL": "redis://:pass-word@h:1",
        "HF_TOKEN": "hf-planted",
        "SEARCH_API_KEY": "key-planted",
    }
    for name, value in (secrets | {"PLAIN": "yes"}).items():
        monkeypatch.setenv(name, value)
    sections = {"plain": custom("Guess"), "search": custom("Guess", variables=["SEARCH_API_KEY"])}
    with played(sections) as play:
        asked = [f"variable {name}" for name in (*secrets, "PLAIN")]
        plain, search = [
            [step.messages[0]["content"] for step in play.wait(play.say(task, *asked))] for task in sections
        ]
        assert plain == ["not set", "not set", "not set", "yes"]
        assert search == ["not set", "not set", "key-planted", "yes"]
        with pytest.raises(EnvironmentFailed) as caught:
            play.wait(play.say("search", "raise key-planted"))
        assert "key-planted" not in str(caught.value)
        key = "os.environ['SEARCH_API_KEY']"
        contents = {key: "*" * 10, f"[{{'type': 'text', 'text': {key}}}]": "*" * 10, "None": ""}
        for content, masked in contents.items():
            message = f"{{'role': 'tool', 'content': {content}, 'is_error': True}}"
            (told,) = play.wait(play.say("search", f"reply ({message}, 0, True, False, {{}})"))
            assert told.messages[0]["content"] == masked
    with pytest.raises(ValueError, match="REDIS_URL stays with the agents"):
        CustomEnvironmentConfig(import_path="a:B", variables=("REDIS_URL",))


WORKER = """
import asyncio
from tests.support.played import custom, played, said
with played({"guess": custom("Guess")}) as play:
    async def begin():
        episode, _ = await play.begin("guess")
        print((await episode.step(said("pids"))).messages[0]["content"], flush=True)
        await episode.step(said("hang"))
    play.wait(begin())
"""


def test_all_processes_end_where_the_worker_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", WORKER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = [int(word) for word in process.stdout.readline().split()]
    assert len(found) == 3
    process.kill()
    process.communicate()
    wait_until_gone(*found)


OWN = '''
import agents
class Old:
    tools = []
    def reset(self, row, seed):
        return agents.WORDS
    def step(self, action):
        return action[::-1], 1, True, False, {}
def twice(word: str) -> str:
    """Say it twice.

    Args:
        word: what to say
    """
    return word * 2
'''


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_children_run_in_another_python_with_packages_of_their_own(tmp_path: Path, version: str) -> None:
    python = another_python(version)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text(f"WORDS = 'Python {version}'", encoding="utf-8")
    (tmp_path / "old.py").write_text(OWN, encoding="utf-8")
    sections = {
        "old": {"type": "custom", "import_path": "old:Old", "python": python},
        "tools": {"type": "tools", "functions": ["old:twice"], "python": python},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with played(sections) as play:

            async def both() -> list[Any]:
                episode, beginning = await play.begin("old")
                step = await episode.step(said("abc"))
                other, tools = await play.begin("tools")
                call = {"id": "1", "function": {"name": "twice", "arguments": '{"word": "ab"}'}}
                read = await other.step({**said(""), "tool_calls": [call]})
                return [beginning.messages[-1], step.messages[0], len(tools.tools), read.messages[0]]

            begun, answer, count, read = play.wait(both())
    assert begun["content"] == f"Python {version}"
    assert (answer["content"], count, read["content"]) == ("cba", 1, "abab")


def test_nothing_of_millrace_is_needed_where_children_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(OWN.replace("import agents", ""), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bare = Path(
        sys.base_prefix, "bin", "python3"
    )  # an interpreter without what is installed in this environment
    finds = subprocess.run([bare, "-c", "import agents"], cwd=tmp_path, capture_output=True, check=False)
    assert b"ModuleNotFoundError" in finds.stderr

    async def offered(play: Played) -> list[str]:
        _, beginning = await play.begin("tools")
        return [tool["function"]["name"] for tool in beginning.tools]

    with played({"tools": {"type": "tools", "functions": ["own:twice"], "python": str(bare)}}) as play:
        assert play.wait(offered(play)) == ["twice"]


def another_python(version: str) -> str:
    """The path of an interpreter that starts."""
    name = f"python{version}"
    path = shutil.which(name)
    if path is None or subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no {name} here")
    return path


def test_a_worker_without_a_begun_episode_has_no_processes() -> None:
    with played({"guess": custom("Guess")}):
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children]
        assert not any(b"child/start.py" in command for command in commands)


def test_descriptors_do_not_pile_up() -> None:
    with played({"guess": custom("Guess", step_deadline_s=0.05)}) as play:
        play.wait(play.say("guess", "7"))
        before = open_files()
        for action in ("exit 1", "hang", "raise x") * 3:
            with pytest.raises(EnvironmentFailed):
                play.wait(play.say("guess", action))
        play.wait(wait_in_loop(lambda: open_files() <= before))


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])
