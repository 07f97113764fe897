"""Harbor's task directories behind walls: an agent works, and then the task's own tests say what that is worth."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.environments.child.workplaces.rewards import NoReward, reward_in
from agents.environments.seam import EnvironmentFailed, FailureKind, FailureStage
from broker.errors import BadMessage
from config.episodes.own_loop import HarborConfig
from sandbox.choice import check_walls
from sandbox.program import SandboxMissing
from tasks.harbor import digest_of, read_task
from tests.support.paths import ROOT
from tests.support.played import Played, played
from tests.support.scripted_calls import judged
from tests.support.task_folders import NUMBER, SETTINGS, TEST, row_of, task_folder

AGENTS = "tests.support.placed_agents:"
COMMAND = ROOT / "tests" / "support" / "placed_command.py"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Yield a folder that the walls' user can read: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture(scope="module")
def play() -> Iterator[Played]:
    try:
        check_walls()
    except SandboxMissing as error:
        pytest.skip(str(error))
    section = {"type": "harbor", "folder_mb": 8}
    sections = {
        name: {**section, "import_path": f"{AGENTS}{name}"}
        for name in ("obey", "obey_once", "breaks", "hangs")
    }
    command = {**section, "command": ["python3", str(COMMAND)], "readable": [str(COMMAND)]}
    with played({**sections, "own": {**section, "result_characters": 60}, "command": command}) as made:
        yield made


RIGHT = "cp number.txt answer.txt"


@pytest.mark.process
def test_an_unmodified_client_works_and_the_tests_pay_what_it_has_made(play: Played, folder: Path) -> None:
    row = row_of(task_folder(folder / "paid"))
    looks = "$ pwd; ls; ls /tests /logs; touch /tmp/kept; touch /usr/x; sleep 900 &"
    finish, heard = play.wait(judged(play, "obey", row, looks, f"$ {RIGHT}; ls /tmp; false", "done"))
    assert (finish.reward, finish.answer) == (1.0, None)
    assert heard[1].splitlines()[:2] == ["/app", "number.txt"]
    assert heard[1].count("No such file or directory") == 2  # the tests and the folder of their logs
    assert "'/usr/x': Read-only file system" in heard[1]
    assert heard[2] == "kept\n[1]"
    finish, _ = play.wait(judged(play, "obey", row, "$ echo 5 > answer.txt", "done"))
    assert finish.reward == 0.0


@pytest.mark.process
@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("task", "said", "reward"),
    [
        ("command", RIGHT, 1.0),
        ("command", "mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt || true", 0.0),
        ("obey_once", f"setsid bash -c 'sleep 1; {RIGHT}' & ", 0.0),  # what it has left running is gone
        ("obey_once", "mkfifo answer.txt", None),
    ],
)
def test_what_an_agent_can_and_can_not_do_for_its_reward(
    play: Played, folder: Path, task: str, said: str, reward: float | None
) -> None:
    row = row_of(task_folder(folder / "can", settings=SETTINGS.replace("20.0", "1.0")))
    if reward is None:
        with pytest.raises(
            EnvironmentFailed, match=r"the tests were ended: 1 s of time; they printed last:\nlooking"
        ):
            play.wait(judged(play, task, row, said))
    else:
        assert play.wait(judged(play, task, row, said))[0].reward == reward


@pytest.mark.process
def test_without_an_agent_of_its_own_the_policy_calls_bash(play: Played, folder: Path) -> None:
    def calls(command: str) -> dict[str, Any]:
        function = {"name": "bash", "arguments": f'{{"command": "{command}"}}'}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        }

    row = row_of(task_folder(folder / "own"))
    said = (calls("seq 99; false"), calls(RIGHT), "It is done.")
    finish, heard = play.wait(judged(play, "own", row, *said))
    assert finish.reward == 1.0
    assert heard[1].startswith("1\n2\n")
    assert "characters are left out]" in heard[1]
    assert heard[1].endswith("99\n[exit code 1]")


@pytest.mark.process
@pytest.mark.prove
def test_an_agent_that_does_not_end_is_stopped_and_judged(play: Played, folder: Path) -> None:
    async def stopped() -> float | None:
        episode, beginning = await play.begin("hangs", row_of(task_folder(folder / "hangs")))
        assert beginning.deadline_s == 60.0
        running = asyncio.create_task(episode.run("http://127.0.0.1:1", "key", 60))
        await asyncio.wait({running}, timeout=2)
        running.cancel()
        try:
            return (await episode.judge(30)).reward
        finally:
            await episode.close()

    assert play.wait(stopped()) == 1.0


@pytest.mark.process
@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("task", "test", "says"),
    [
        ("obey_once", "echo broken; exit 4", r"exit code 4 and no reward: .* printed last:\nbroken"),
        ("obey_once", "echo much > /logs/verifier/reward.txt", "reward.txt has no reward: .*'much"),
        ("obey_once", "head -c 20M /dev/zero > big", "the tests were ended: more than 8 MiB of files"),
        ("breaks", TEST, "ValueError: broken on purpose"),
        ("command", TEST, "python3 ended with exit code 7"),
    ],
)
def test_agent_and_tests_fail_with_a_reason_of_their_own(
    play: Played, folder: Path, task: str, test: str, says: str
) -> None:
    row = row_of(task_folder(folder / "fails", test=f"{test}\nsleep 1\n"))
    with pytest.raises(EnvironmentFailed, match=says) as failed:
        play.wait(judged(play, task, row, "exit 7"))
    is_agents = test == TEST
    assert (failed.value.stage, failed.value.is_policys) == (
        FailureStage.RUN if is_agents else FailureStage.JUDGE,
        is_agents,
    )


@pytest.mark.process
def test_a_row_that_can_not_be_played_says_why(play: Played, folder: Path) -> None:
    changed = task_folder(folder / "changed")
    row = row_of(changed)
    row["answer"] = {"value": {"folder": str(changed), "digest": digest_of(changed)}}
    (changed / "tests" / "expected.txt").write_text("7")
    variable = task_folder(
        folder / "variable", settings='environment.env = {A = "${NO_SUCH:-3}", B = "${NO_SUCH}"}'
    )
    for given, says in (
        (row, "is not as it was when `millrace prepare` made the row"),
        ({"answer": {"path": "x"}}, "the task directory"),
        (row_of(folder / "nowhere"), "there is no task.toml"),
        (row_of(variable), "wants the variable NO_SUCH, which is not set"),
    ):
        with pytest.raises(EnvironmentFailed, match=says) as failed:
            play.wait(play.begin("obey", given))
        assert (failed.value.stage, failed.value.kind, failed.value.is_policys) == (
            FailureStage.RESET,
            FailureKind.ERROR,
            False,
        )


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"task.toml": "steps = [{name = 'one'}]"}, r"several \[\[steps\]\] is not played here"),
        ({"task.toml": "[verifier]\nenvironment_mode = 'separate'"}, "environment_mode = 'separate'"),
        ({"task.toml": "[agent]\nnetwork_mode = 'allowlist'"}, "network_mode = 'allowlist'"),
        ({"task.toml": "[agent]\ntimeout_sec = 'long'"}, "agent.timeout_sec: "),
        ({"task.toml": "[agent"}, "is no TOML"),
        ({"task.toml": "environment.memory = 'much'"}, "'much' is no size such as 2G"),
        ({"environment/docker-compose.yaml": ""}, "docker-compose.yaml, several containers"),
    ],
)
def test_a_task_directory_that_is_not_played_here_is_refused_by_name(
    tmp_path: Path, files: dict[str, str], says: str
) -> None:
    with pytest.raises(BadMessage, match=says):
        read_task(task_folder(tmp_path, files=files))


def test_a_task_directory_is_read_as_harbor_reads_it(tmp_path: Path) -> None:
    plain = read_task(task_folder(tmp_path))
    assert (plain.agent_s, plain.verifier_s, plain.needs_image, plain.wants_network) == (
        60.0,
        20.0,
        False,
        True,
    )
    assert plain.instruction == "Write the number of number.txt into answer.txt.\n"
    settings = (
        "schema_version = '1.4'\nagent.user = 1000\n[environment]\ndocker_image = 'a/b'\nmemory = '2G'\n"
    )
    made = read_task(task_folder(tmp_path, settings=settings + "network_mode = 'no-network'"))
    assert (made.image, made.memory_mb, made.agent_user, made.wants_network) == ("a/b", 2048, "1000", False)
    assert (made.agent_s, made.verifier_s) == (None, 600.0)


@pytest.mark.parametrize(
    ("name", "text", "reward"),
    [
        ("reward.json", "0.5", (0.5, "")),
        ("reward.json", '{"reward": 1, "speed": 2.5, "why": "x"}', (1.0, "speed 2.5")),
        ("reward.json", '{"score": 0.25}', (0.25, "")),
        ("reward.txt", " 1\n", (1.0, "")),
        ("reward.json", '{"a": 1, "b": 2}', "none is 'reward'"),
        ("reward.json", "nan", "no reward"),
        ("reward.json", "1e999", "finite"),
        ("reward.txt", "", "no reward"),
        ("reward.txt", "1" * 70_000, "more than"),
    ],
)
def test_rewards_are_read_as_harbor_reads_them(tmp_path: Path, name: str, text: str, reward: Any) -> None:
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier" / name).write_text(text)
    if isinstance(reward, tuple):
        (tmp_path / "verifier" / "reward.txt").touch()  # the other one is read first
        (tmp_path / "verifier" / name).write_text(text)
        assert reward_in(tmp_path) == reward
    else:
        with pytest.raises(NoReward, match=reward):
            reward_in(tmp_path)


@pytest.mark.parametrize("link", ["reward.txt", "verifier"])
def test_a_reward_that_is_a_link_is_none(tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "reward.txt").write_text("1")
    if link == "verifier":
        (tmp_path / link).symlink_to(elsewhere)
    else:
        (tmp_path / "verifier").mkdir()
        (tmp_path / "verifier" / link).symlink_to(elsewhere / link)
    with pytest.raises(NoReward, match=f"{link} can't be read"):
        reward_in(tmp_path)


def test_a_section_has_one_agent_at_most() -> None:
    with pytest.raises(ValueError, match="name one of them, or neither"):
        HarborConfig(command=("x",), import_path="a:b")
    assert NUMBER
