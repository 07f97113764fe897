"""What the tools see of a run from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import RunFailed
from config.run import Run
from tests.support.waiting import wait_until
from tools.main import main
from tools.run_view.follower import RunFollower
from tools.run_view.log_tail import LogTail, last_lines
from tools.runs.command import NoRunsFolder, list_runs
from tools.runs.folder import RunTaken, free_name, held, holder, read_run


def test_a_run_says_how_far_it_came(leave_run: Callable[..., Path]) -> None:
    found = read_run(leave_run("demo", "finished"))
    assert (found.status, found.version, found.last_step["reward_mean"]) == ("finished", 2, 0.75)
    assert found.pass_rates == [(0, 0.125), (2, 0.875)]


def test_a_round_that_ended_after_its_steps_line_belongs_to_that_step(leave_run: Callable[..., Path]) -> None:
    folder = leave_run("demo", "finished")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 2, "evaluations": [{"version": 3, "pass_rate": 1.0, "samples": 8}]}\n')
    found = read_run(folder)
    assert (len(found.metrics), found.last_step["reward_mean"]) == (2, 0.75)
    assert found.pass_rates == [(0, 0.125), (2, 0.875), (3, 1.0)]
    (folder / "live").mkdir()
    follower = RunFollower(
        "redis://127.0.0.1:1", "demo", folder / "live", reads_metrics=True
    )  # nobody answers
    (folder / "live" / "metrics.jsonl").write_text((folder / "metrics.jsonl").read_text())
    with follower.keep_looking(0.05):
        wait_until(lambda: len(follower.view.pass_rates) >= 3)
    follower.close()
    assert list(follower.view.pass_rates) == found.pass_rates
    assert (follower.view.rewards, follower.view.last_step["step"]) == ((0.25, 0.75), 2)


def test_a_half_written_folder_is_read_as_far_as_it_goes(leave_run: Callable[..., Path]) -> None:
    folder = leave_run("demo", "running")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 3, "rew')
    (folder / "status.json").write_text("")
    found = read_run(folder)
    assert (found.status, len(found.metrics)) == ("", 2)


@pytest.mark.parametrize(
    ("there", "name"), [([], "demo"), (["demo"], "demo-2"), (["demo", "demo-2", "demo-3"], "demo-4")]
)
def test_a_new_run_takes_the_next_free_name(
    there: list[str], name: str, make_run: Callable[..., Run], leave_run: Callable[..., Path]
) -> None:
    for finished in there:
        leave_run(finished, "finished")
    assert free_name(make_run()) == name


@pytest.mark.parametrize("status", ["failed", "running", "stopped"])
@pytest.mark.parametrize(("resume", "name"), [("auto", "demo-2"), ("never", "demo-3")])
def test_of_numbered_runs_the_first_that_is_not_finished_goes_on(
    status: str, resume: str, name: str, make_run: Callable[..., Run], leave_run: Callable[..., Path]
) -> None:
    leave_run("demo", "finished")
    leave_run("demo-2", status)
    assert free_name(make_run(learner={"resume": resume})) == name


def test_a_numbered_run_that_runs_now_is_left_alone(
    make_run: Callable[..., Run], leave_run: Callable[..., Path]
) -> None:
    leave_run("demo", "finished")
    with held(leave_run("demo-2", "running")):
        assert free_name(make_run()) == "demo-3"


@pytest.mark.parametrize("status", ["failed", "running", "stopped"])
def test_a_run_that_has_begun_goes_on_under_its_name(
    status: str, make_run: Callable[..., Run], leave_run: Callable[..., Path]
) -> None:
    leave_run("demo", status)
    assert free_name(make_run()) == "demo"


def test_a_run_that_has_begun_is_refused_where_it_shall_never_go_on(
    make_run: Callable[..., Run], leave_run: Callable[..., Path]
) -> None:
    leave_run("demo", "failed", reason="no luck")
    with pytest.raises(RunTaken, match=r"(?s)failed \(no luck\).*learner\.resume=auto.*millrace rm demo"):
        free_name(make_run(learner={"resume": "never"}))


def test_a_folder_is_held_by_one_and_free_after(runs_dir: Path) -> None:
    folder = runs_dir / "demo"
    assert holder(folder) is None
    with held(folder):
        assert holder(folder) is not None
        with pytest.raises(RunTaken, match="another `millrace up`"), held(folder):
            pass
    assert holder(folder) is None


@pytest.mark.parametrize("taken", ["", "demo", "demo/up.lock"])  # the folder of runs, the run's, its lock
def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(taken: str, tmp_path: Path) -> None:
    runs_dir = tmp_path / "elsewhere"
    (runs_dir / taken).parent.mkdir(parents=True, exist_ok=True)
    (runs_dir / taken).mkdir() if taken.endswith("lock") else (runs_dir / taken).write_text("a file")
    with (
        pytest.raises(RunFailed, match=r"elsewhere/demo can't be written: .*runs_dir="),
        held(runs_dir / "demo"),
    ):
        pass


def test_runs_are_listed_with_the_newest_last(
    leave_run: Callable[..., Path], runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run("late", "failed", at=2e9)
    leave_run("early", "finished", at=1e9)
    leave_run("killed", "running", at=1.5e9)
    (runs_dir / "notes").mkdir()  # somebody's own folder
    assert list_runs(runs_dir) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["run", "status", "step", "reward"],
        ["early", "finished", "2/2", "0.750"],
        ["killed", "running?", "2/2", "0.750"],
        ["late", "failed", "2/2", "0.750"],
    ]


def test_no_runs_are_said_to_be_none(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_runs(runs_dir) == 0
    assert capsys.readouterr().out.startswith("no runs in")
    with pytest.raises(NoRunsFolder, match=f"no folder {runs_dir}/nowhere"):
        list_runs(runs_dir / "nowhere")


def test_a_log_is_followed_by_whole_lines_and_the_last_state_of_a_progress_bar(tmp_path: Path) -> None:
    path = tmp_path / "role.log"
    path.write_bytes(b"of an earlier life\n")
    tail = LogTail(path)
    with path.open("ab", buffering=0) as stream:
        stream.write(b"one\ntw")
        assert tail.new_lines() == ["one"]
        stream.write(b"o\n10%\r50%\r100%\r\n")
        assert tail.new_lines() == ["two", "100%"]
    assert tail.new_lines() == []
    assert last_lines(path, 2) == ["two", "100%"]


def test_runs_are_an_object_a_line_for_programs(
    leave_run: Callable[..., Path], runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run("first", "finished", at=1.0)
    leave_run("second", "failed", at=2.0, reason="no room")
    (runs_dir / "third").mkdir()
    (runs_dir / "third" / "config.yaml").touch()
    assert main(["runs", "--json", "--runs-dir", str(runs_dir)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["run"], each["status"], each["reason"]) for each in found] == [
        ("first", "finished", ""),
        ("second", "failed", "no room"),
        ("third", "not begun", ""),
    ]
    assert found[0] == {
        "run": "first",
        "folder": str(runs_dir / "first"),
        "status": "finished",
        "reason": "",
        "step": 2,
        "steps": 2,
        "reward": 0.75,
        "pass_rates": [[0, 0.125], [2, 0.875]],
        "at": 1.0,
    }
    assert (found[2]["step"], found[2]["steps"], found[2]["reward"]) == (0, None, None)


def test_no_runs_are_no_lines_for_programs(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--json", "--runs-dir", str(runs_dir)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("status", "wanted", "shown"),
    [
        ("running", "pause", "paused"),
        ("running", "drain", "draining"),
        ("running", "", "running"),
        ("stopped", "pause", "stopped"),
    ],
)
def test_a_paused_run_is_shown_as_paused(
    leave_run: Callable[..., Path],
    runs_dir: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    status: str,
    wanted: str,
    shown: str,
) -> None:
    file = leave_run("demo", status) / "status.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"wanted": wanted}))
    with held(runs_dir / "demo"):
        assert main(["runs", "--json", "--runs-dir", str(runs_dir)]) == 0
        assert json.loads(capsys.readouterr().out)["status"] == shown
        assert main(["runs", "--runs-dir", str(runs_dir)]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[1] == shown
