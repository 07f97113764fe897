"""`python -m benchmarks.typed_pages`, or `make prove-pages`: every command of README and docs/, typed for real.

In: this checkout. Out: a line for each command with its exit code and seconds, which `--write` puts at the end of
benchmarks/RESULTS.md. Exit code 0 if each did what its page says. They are typed in a fresh clone, as the pages have
them, in an order in which a person might: a run is started, looked at, paused, drained, trained again from its journal,
removed. What other bars type is in `benchmarks.pages`. It uses the ports 8000, 8080, 9090 and 9400.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks import results
from benchmarks.pages import Line, same, wanted
from broker import processes

WAIT_S = 300.0
GRACE_S = 60.0
POLL_S = 0.2
LAST_CHARS = 400


class Failed(Exception):
    """A command did not do what its page says."""


class Desk:
    """A fresh clone, and somebody who types there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "millrace"
        subprocess.run(["git", "clone", "--quiet", results.ROOT, self.folder], check=True)
        (self.folder / ".venv").symlink_to(results.ROOT / ".venv")
        for file in self.folder.glob("*/*"):
            os.utime(file, (0, 0))          # older than the environment, or make would install it again
        os.utime(self.folder / "pyproject.toml", (0, 0))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MILLRACE_", "REDIS_URL"))}
        self.environment = kept | {"PATH": f"{results.ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
                                   "XDG_STATE_HOME": str(folder / "state")}
        self._logs = folder / "logs"
        self._logs.mkdir()
        self.typed: list[tuple[str, float]] = []        # the page's line, and how long it took

    def types(self, line: str, *, says: str = "", answer: str = "", within: str = ".", **swaps: str) -> str:
        """One command, to its end. Returns what it said.

        Args:
            line: as the page has it.
            says: what must be in its output.
            answer: what is typed at its question.
            within: the folder of the clone that it is typed in.
            swaps: words of the page that stand for others.
        Raises:
            Failed: its exit code is not 0, or it says something else.
        """
        began = time.monotonic()
        done = subprocess.run(["bash", "-c", _with(line, swaps)], cwd=self.folder / within, env=self.environment,
                              check=False, input=answer, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=WAIT_S * 2)
        if done.returncode or says not in done.stdout:
            raise Failed(f"{line}: exit code {done.returncode}, said: {done.stdout[-LAST_CHARS:]}")
        self._note(line, began)
        return done.stdout

    @contextlib.contextmanager
    def keeps(self, line: str, *, until: Callable[[], object], stop: signal.Signals | None = signal.SIGTERM,
              within: str = ".", **swaps: str) -> Iterator[Path]:
        """One command that goes on, from the moment that `until` is true to the end of the block; yields its log.

        Args:
            stop: how it is told to end; None: it ends by itself.
        Raises:
            Failed: it ends before, or not with 0.
        """
        began = time.monotonic()
        typed = Line(Path(), _with(line, swaps))
        log = self._logs / f"{len(list(self._logs.iterdir()))}.log"
        program = shutil.which(typed.words[0], path=self.environment["PATH"])
        with log.open("wb") as stream:
            process = processes.spawn([program or typed.words[0], *typed.words[1:]], cwd=self.folder / within,
                                      env=self.environment | typed.variables, stdout=stream, stderr=stream)
        try:
            wait_until(line, lambda: processes.has_ended(process) or until())
            if stop is not None and processes.has_ended(process):
                raise Failed(f"{line}: it ended at once, and said: {_end_of(log)}")
            yield log
            if stop is not None:
                process.send_signal(stop)
            if not processes.wait(process, WAIT_S if stop is None else GRACE_S):
                raise Failed(f"{line}: it does not end; it said: {_end_of(log)}")
        finally:
            code = processes.stop(process, 0)
        if code:
            raise Failed(f"{line}: exit code {code}, said: {_end_of(log)}")
        self._note(line, began)

    def steps(self, run: str) -> int:
        """How many a run has trained."""
        file = self.folder / "runs" / run / "metrics.jsonl"
        return sum('"step"' in line for line in file.read_text().splitlines()) if file.exists() else 0

    def _note(self, line: str, began: float) -> None:
        self.typed.append((line, time.monotonic() - began))
        sys.stdout.write(f"{self.typed[-1][1]:6.1f} s  {line}\n")
        sys.stdout.flush()


def before_a_run(desk: Desk) -> None:
    """What a newcomer looks at."""
    desk.types("millrace doctor")
    desk.types("millrace doctor config/recipes/demo_cpu.yaml")
    desk.types("millrace up config/recipes/demo_cpu.yaml --dry-run", says="-m learner")
    desk.types(".venv/bin/python -m learner --config config/recipes/demo_cpu.yaml --print-config", says="max_lag")
    desk.types("millrace score rows.jsonl --config run.yaml --out scores.jsonl", within="examples/scorer")
    for own in ("my_recipe.yaml", "my_scorer.py", "my_rows.jsonl"):
        (desk.folder / own).touch()
    desk.types("cp .env.example .env")
    desk.types("mkdir -p own && cp my_recipe.yaml my_scorer.py my_rows.jsonl own/")
    for line in ("echo 'RUN=first' >> .env", "echo 'OWN=./own' >> .env", "echo 'RECIPE=own/my_recipe.yaml' >> .env"):
        desk.types(line)


def a_run(desk: Desk) -> None:
    """The demo, watched, held up for a moment, and drained after 21 steps."""
    with desk.keeps("make demo", until=partial(desk.steps, "demo"), stop=None):
        with desk.keeps(".venv/bin/millrace metrics demo", until=lambda: listens(9090)):
            pass
        with desk.keeps(".venv/bin/millrace metrics demo --port 9400 --host 0.0.0.0", until=lambda: listens(9400)):
            pass
        desk.types("millrace pause RUN", RUN="demo")
        desk.types(".venv/bin/millrace top demo --once", says="demo")
        json.loads(desk.types(".venv/bin/millrace top demo --once --json"))
        with desk.keeps(".venv/bin/millrace top demo --json --every 10", until=lambda: True,
                        stop=signal.SIGINT) as objects:
            wait_until("an object of top", lambda: objects.read_text().startswith("{"))
        with desk.keeps(".venv/bin/millrace top demo", until=lambda: True, stop=signal.SIGINT) as screen:
            wait_until("a screen of top", lambda: "demo" in screen.read_text(errors="replace"))
        desk.types(".venv/bin/millrace redis-cli demo HGET 'rl:{demo}:where' 17")
        desk.types("millrace audit first", says="twice", first="demo")
        desk.types("millrace resume RUN", RUN="demo")
        wait_until("step 21", lambda: desk.steps("demo") >= 21)
        desk.types("millrace drain first --wait 600", first="demo")


def a_finished_run(desk: Desk) -> None:
    """All that can be asked of it."""
    desk.types("millrace runs", says="demo")
    desk.types("millrace audit RUN", says="lost", RUN="demo")
    desk.types("millrace audit RUN --json", RUN="demo")
    desk.types("millrace journal ls RUN", RUN="demo")
    desk.types("millrace journal export RUN --out all.jsonl", RUN="demo")
    desk.types(".venv/bin/millrace journal export demo --out answers.jsonl")
    with (desk.folder / "answers.jsonl").open(encoding="utf-8") as answers:
        trained = str(json.loads(answers.readline())["group"])
    desk.types("millrace journal show RUN --group 17", says="answer", RUN="demo", **{"17": trained})
    desk.types(".venv/bin/millrace trace demo 17", says=trained, **{"17": trained})
    desk.types("millrace replay RUN --steps 10-20", says="20", RUN="demo")
    desk.types("millrace rescore RUN --scorer math", RUN="demo")
    desk.types("millrace rescore RUN --scorer math scorers.tasks.math.scorer.require_box=false", RUN="demo")
    desk.types("millrace rescore RUN --scorer letter --config examples/scorer/run.yaml --out differences.jsonl",
               RUN="demo")
    desk.types("millrace dead list RUN", RUN="demo")
    desk.types(".venv/bin/millrace redis-cli demo XRANGE 'rl:{demo}:dead' - +")
    desk.types(".venv/bin/millrace redis-cli demo XREVRANGE 'rl:{demo}:weights' + - COUNT 1", says="version")
    desk.types("mkdir -p backup")
    desk.types("cp -a runs/demo backup/demo")
    desk.types("millrace audit demo --runs-dir backup", says="lost")
    desk.types("millrace rm demo --yes")


def roles_by_hand(desk: Desk) -> None:
    """Each role from a terminal of its own, and the reward server with its scorers beside them."""
    def began() -> bool:
        return (desk.folder / "runs" / "first" / "config.yaml").exists()

    def said(log: Path, words: str) -> None:
        wait_until(words, lambda: words in log.read_text(errors="replace"))

    with contextlib.ExitStack() as terminals:
        opens = terminals.enter_context
        opens(desk.keeps(".venv/bin/python -m scorers serve --port 8000", until=lambda: listens(8000)))
        opens(desk.keeps("python -m learner --config config/recipes/demo_cpu.yaml name=first", until=began, stop=None))
        opens(desk.keeps(".venv/bin/python -m generators --run first", until=lambda: True, stop=None))
        both = opens(desk.keeps(".venv/bin/python -m scorers --run first,api", until=lambda: True))
        pools = [opens(desk.keeps(line, until=lambda: True, stop=None)) for line in (
            ".venv/bin/python -m scorers --run first",
            ".venv/bin/python -m scorers --run first --queues math --workers 8",
            "python -m scorers --run first --workers 8")]
        for log in (both, *pools):
            said(log, "self_test passed")
        wait_until("step 2", lambda: desk.steps("first") >= 2)
        desk.types("millrace pause first")
        desk.types("millrace resume first")
        desk.types("millrace drain first")
    desk.types("millrace rm demo --yes", demo="first")


def services(desk: Desk) -> None:
    """The reward server as its page starts it, and the sandbox."""
    (desk.folder / "token.txt").write_text("a-token-of-forty-characters-for-one-test")
    shutil.copy(desk.folder / "examples" / "scorer" / "run.yaml", desk.folder / "run.yaml")
    with (desk.keeps(".venv/bin/python -m scorers serve", until=lambda: listens(8000)),
          desk.keeps(".venv/bin/python -m scorers --run api --workers 8", until=lambda: True) as pool):
        wait_until("its scorers", lambda: "self_test passed" in pool.read_text(errors="replace"))
        for question in wanted():
            if question.words[0] == "curl":
                desk.types(question.command)
    for line in (".venv/bin/python -m scorers serve --host 0.0.0.0 --token-file token.txt",
                 ".venv/bin/python -m scorers serve --config run.yaml"):
        with desk.keeps(line, until=lambda: listens(8000)):
            pass
    with desk.keeps(".venv/bin/python -m scorers sandbox --port 8080", until=lambda: listens(8080)):
        pass


def the_end(desk: Desk) -> None:
    """Runs with settings over the file's; everything is removed."""
    for run, line in (
        ("demo", ".venv/bin/millrace up config/recipes/demo_cpu.yaml learner.optimizer.lr=1e-4"),
        ("demo", "MILLRACE_LEARNER__OPTIMIZER__LR=1e-4 .venv/bin/millrace up config/recipes/demo_cpu.yaml"),
        ("first", "millrace up config/recipes/demo_cpu.yaml name=first"),
    ):
        with desk.keeps(line, until=partial(desk.steps, run), stop=None):
            desk.types("millrace drain RUN", RUN=run)
        desk.types("millrace rm demo", demo=run, answer=f"{run}\n")
    desk.types("make clean")


ACTS: dict[str, Callable[[Desk], None]] = {act.__name__: act for act in (
    before_a_run, a_run, a_finished_run, roles_by_hand, services, the_end)}


def listens(port: int) -> bool:
    """Whether somebody does on this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_until(what: str, condition: Callable[[], object]) -> None:
    """Raises Failed, which names it."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {WAIT_S:.0f} s")
        time.sleep(POLL_S)


def _with(line: str, swaps: dict[str, str]) -> str:
    command = Line(Path(), line).command
    for word, other in swaps.items():
        command = re.sub(rf"\b{word}\b", other, command)
    return command


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-LAST_CHARS:]


def main(argv: Sequence[str] | None = None) -> int:
    """Type everything; show what came of it, and write it down if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typed_pages", description="Every command of the pages.")
    parser.add_argument("--acts", default=",".join(ACTS), help=f"of {','.join(ACTS)}; default: all")
    parser.add_argument("--write", action="store_true", help=f"append to {results.RESULTS.relative_to(results.ROOT)}")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.default_int_handler)        # behind `&` it is ignored, here and in who is started
    commit = results.commit()
    lines = [*results.heading("Every command of the pages, typed"), "| what a person does | commands | seconds |",
             "|---|---|---|"]
    typed: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="millrace-pages-") as folder:
        desk = Desk(Path(folder))
        for act in args.acts.split(","):
            before, began = len(desk.typed), time.monotonic()
            try:
                ACTS[act](desk)
            except Failed as error:
                sys.stdout.write(f"FAILED: {error}\n")
                return 1
            lines.append(f"| {act.replace('_', ' ')} | {len(desk.typed) - before} | {time.monotonic() - began:.0f} |")
        typed = {same(line) for line, _ in desk.typed}
    left = [line for line in wanted() if same(line.command) not in typed]
    lines += ["", f"**{len(typed)} commands did what the pages say, {len(left)} were left out**"
              + "".join(f"; `{line.command}`" for line in left) + ".", *results.remarks(commit)]
    sys.stdout.write("\n".join(["", *lines, ""]))
    if args.write:
        results.append(lines)
    return 0 if not left and results.commit() == commit else 1


if __name__ == "__main__":
    sys.exit(main())
