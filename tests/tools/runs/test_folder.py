"""What the tools see of a run from its folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.errors import RunFailed
from tests.support.told import Capsys, Millrace
from tests.support.waiting import wait_until
from tests.tools.conftest import LeaveRun, MakeRun
from tools.run_view.follower import RunFollower
from tools.run_view.log_tail import LogTail, last_lines
from tools.runs.command import NoRunsFolder, list_runs
from tools.runs.folder import RunTaken, free_name, held, holder, read_run


def test_a_run_says_how_far_it_came(leave_run: LeaveRun) -> None:
    found = read_run(leave_run("demo", "finished"))
    assert (found.status, found.version, found.last_step["reward_mean"]) == ("finished", 2, 0.75)
    assert found.pass_rates == [(0, 0.125), (2, 0.875)]


def test_a_round_that_ended_after_its_steps_line_belongs_to_that_step(leave_run: LeaveRun) -> None:
    folder = leave_run("demo", "finished")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 2, "evaluations": [{"version": 3, "pass_rate": 1.0, "samples": 8}]}\n')
    found = read_run(folder)
    assert (len(found.metrics), found.last_step["reward_mean"]) == (2, 0.75)
    assert found.pass_rates == [(0, 0.125), (2, 0.875), (3, 1.0)]
    (folder / "live").mkdir()
    nobody = "redis://127.0.0.1:1"
    follower = RunFollower(nobody, "demo", folder / "live", reads_metrics=True)
    (folder / "live" / "metrics.jsonl").write_text((folder / "metrics.jsonl").read_text())
    with follower.keep_looking(0.05):
        wait_until(lambda: len(follower.view.pass_rates) >= 3)
    follower.close()
    assert list(follower.view.pass_rates) == found.pass_rates
    assert (follower.view.rewards, follower.view.last_step["step"]) == ((0.25, 0.75), 2)


def test_a_half_written_folder_is_read_as_far_as_it_goes(leave_run: LeaveRun) -> None:
    folder = leave_run("demo", "running")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 3, "rew')
    (folder / "status.json").write_text("")
    found = read_run(folder)
    assert (found.status, len(found.metrics)) == ("", 2)


@pytest.mark.parametrize(
    ("there", "name"), [([], "demo"), (["demo"], "demo-2"), (["demo", "demo-2", "demo-3"], "demo-4")]
)
def test_a_run_takes_a_free_name(there: list[str], name: str, make_run: MakeRun, leave_run: LeaveRun) -> None:
    for finished in there:
        leave_run(finished, "finished")
    assert free_name(make_run()) == name


@pytest.mark.parametrize("status", ["failed", "running", "stopped"])
@pytest.mark.parametrize(("resume", "name"), [("auto", "demo-2"), ("never", "demo-3")])
def test_of_numbered_runs_the_first_that_is_not_finished_goes_on(
    status: str, resume: str, name: str, make_run: MakeRun, leave_run: LeaveRun
) -> None:
    leave_run("demo", "finished")
    leave_run("demo-2", status)
    assert free_name(make_run(learner={"resume": resume})) == name


def test_a_numbered_run_that_runs_now_is_left_alone(make_run: MakeRun, leave_run: LeaveRun) -> None:
    leave_run("demo", "finished")
    with held(leave_run("demo-2", "running")):
        assert free_name(make_run()) == "demo-3"


@pytest.mark.parametrize("status", ["failed", "running", "stopped"])
def test_a_run_that_has_begun_goes_on_under_its_name_unless_it_never_shall(
    status: str, make_run: MakeRun, leave_run: LeaveRun
) -> None:
    leave_run("demo", status, reason="no luck")
    assert free_name(make_run()) == "demo"
    with pytest.raises(RunTaken, match=rf"(?s){status} \(no luck\).*learner\.resume=auto.*millrace rm demo"):
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
    said = r"elsewhere/demo can't be written: .*runs_dir="
    with pytest.raises(RunFailed, match=said), held(runs_dir / "demo"):
        pass


def test_runs_are_listed_with_the_newest_last(leave_run: LeaveRun, runs_dir: Path, capsys: Capsys) -> None:
    leave_run("late", "failed", at=2e9)
    leave_run("early", "finished", at=1e9)
    leave_run("killed", "running", at=1.5e9)
    (runs_dir / "notes").mkdir()  # somebody's own folder
    assert list_runs(runs_dir) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    runs = {"early": "finished", "killed": "running?", "late": "failed"}
    assert rows == [["run", "status", "step", "reward"], *([*run, "2/2", "0.750"] for run in runs.items())]


def test_no_runs_are_said_to_be_none(runs_dir: Path, capsys: Capsys) -> None:
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


def test_runs_are_objects_for_programs(leave_run: LeaveRun, runs_dir: Path, millrace: Millrace) -> None:
    words = ("runs", "--json", "--runs-dir", runs_dir)
    assert millrace(*words) == (0, "", "")
    folder = str(leave_run("first", "finished", at=1.0))
    leave_run("second", "failed", at=2.0, reason="no room")
    (runs_dir / "third").mkdir()
    (runs_dir / "third" / "config.yaml").touch()
    first, *others = [json.loads(line) for line in millrace(*words).lines]
    shown = {"run": "first", "folder": folder, "status": "finished", "reason": "", "step": 2, "steps": 2}
    assert first == shown | {"reward": 0.75, "pass_rates": [[0, 0.125], [2, 0.875]], "at": 1.0}
    keys = ("run", "status", "reason", "step", "steps", "reward")
    assert [tuple(each[key] for key in keys) for each in others] == [
        ("second", "failed", "no room", 2, 2, 0.75),
        ("third", "not begun", "", 0, None, None),
    ]


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
    leave_run: LeaveRun, runs_dir: Path, millrace: Millrace, *, status: str, wanted: str, shown: str
) -> None:
    file = leave_run("demo", status) / "status.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"wanted": wanted}))
    with held(runs_dir / "demo"):
        assert millrace("runs", "--json", "--runs-dir", runs_dir).json["status"] == shown
        assert millrace("runs", "--runs-dir", runs_dir).lines[1].split()[1] == shown
