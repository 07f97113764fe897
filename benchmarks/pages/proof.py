"""`make prove-pages`: every command of README and docs/, typed for real.

In: this checkout. Out: a line for each command with its exit code and seconds, which `--write` puts at the end of
benchmarks/RESULTS.md. Exit code 0 if each did what its page says. They are typed in a fresh clone, as the pages have
them, in an order in which a person might: a run is started, looked at, paused, drained, trained again from its journal,
removed. What other bars type is in `benchmarks.pages.pages`. It uses the ports 8000, 8080, 9090 and 9400.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import results
from benchmarks.pages.page_session import Failed, PageSession, listens, wait_until
from benchmarks.pages.pages import same, wanted

# A scorer of one's own for the demo's rows, as examples/scorer has one for letters.
OWN = """
from scorers.custom import SimpleScorer

class Letter(SimpleScorer):
    name, version = "letter", "1"

    def __init__(self, *, ignore_case: bool) -> None:
        pass

    def score(self, text, verification_info):
        value = verification_info["answer"]["value"]
        return self.scored(value in text, f"looked for {value}")
"""


def before_a_run(session: PageSession) -> None:
    """Type what a newcomer looks at."""
    session.types("millrace doctor")
    session.types("millrace doctor config/recipes/demo_cpu.yaml")
    session.types("millrace plan config/recipes/math_qwen2.5-7b_8gpu.yaml --gpu H100", says="expected lag")
    session.types("millrace data check config/recipes/demo_cpu.yaml")
    session.types("millrace think-template config/recipes/demo_model -o demo-think", says="is read as")
    session.types("millrace up config/recipes/demo_cpu.yaml --dry-run", says="-m learner")
    session.types(
        ".venv/bin/python -m learner --config config/recipes/demo_cpu.yaml --print-config", says="max_lag"
    )
    session.types("millrace score rows.jsonl --config run.yaml --out scores.jsonl", within="examples/scorer")
    for theirs in ("my_recipe.yaml", "my_rows.jsonl"):
        (session.folder / theirs).touch()
    (session.folder / "my_scorer.py").write_text(OWN)
    shutil.copy(session.folder / "examples" / "scorer" / "run.yaml", session.folder)
    session.types("cp .env.example .env")
    session.types("mkdir -p own && cp my_recipe.yaml my_scorer.py my_rows.jsonl own/")
    for line in (
        "echo 'RUN=first' >> .env",
        "echo 'OWN=./own' >> .env",
        "echo 'RECIPE=own/my_recipe.yaml' >> .env",
    ):
        session.types(line)


def a_run(session: PageSession) -> None:
    """Start the demo, watch it, pause it for a moment, and drain it after 30 steps."""
    with session.keeps("make demo", until=partial(session.steps, "demo"), ends=True):
        with session.keeps(".venv/bin/millrace metrics demo", until=lambda: listens(9090)):
            pass
        with session.keeps(
            ".venv/bin/millrace metrics demo --port 9400 --host 0.0.0.0", until=lambda: listens(9400)
        ):
            pass
        session.types("millrace pause RUN", RUN="demo")
        session.types(".venv/bin/millrace top demo --once", says="demo")
        json.loads(session.types(".venv/bin/millrace top demo --once --json"))
        session.watches(".venv/bin/millrace top demo --json --every 10", r"(?m)^\{.*\}\s*$")
        session.watches(".venv/bin/millrace top demo", "rollouts")
        session.types(".venv/bin/millrace redis-cli demo HGET 'rl:{demo}:where' 17")
        session.types("millrace audit first", says="twice", first="demo")
        session.types("millrace resume RUN", RUN="demo")
        wait_until("step 30", lambda: session.steps("demo") >= 30)
        session.types("millrace drain first --wait 600", first="demo")


def a_finished_run(session: PageSession) -> None:
    """Ask a finished run for all that can be asked of it."""
    session.types("millrace runs", says="demo")
    session.types("millrace audit RUN", says="lost", RUN="demo")
    session.types("millrace audit RUN --json", RUN="demo")
    session.types("millrace journal ls RUN", RUN="demo")
    session.types("millrace journal export RUN --out all.jsonl", RUN="demo")
    session.types("millrace journal export RUN --out lost.parquet --outcome dropped evaluated", RUN="demo")
    session.types(".venv/bin/millrace journal export demo --out answers.jsonl")
    session.types(
        ".venv/bin/millrace export demo --version 30 -o model-30", says="version 30 of demo: model-30"
    )
    session.types(".venv/bin/millrace report demo", says="report.html")
    session.types(
        ".venv/bin/millrace report demo demo-2 -o both.html", says="both.html", **{"demo-2": "demo"}
    )
    with (session.folder / "answers.jsonl").open(encoding="utf-8") as answers:
        trained = str(json.loads(answers.readline())["group"])
    session.types("millrace journal show RUN --group 17", says="answer", RUN="demo", **{"17": trained})
    session.types(".venv/bin/millrace trace demo 17", says=trained, **{"17": trained})
    session.types("millrace replay RUN --steps 10-20", says="20", RUN="demo")
    session.types("millrace rescore RUN --scorer math", RUN="demo")
    session.types(
        "millrace rescore RUN --scorer math scorers.tasks.math.scorer.require_box=false", RUN="demo"
    )
    session.types(
        "millrace rescore RUN --scorer letter --config run.yaml --out differences.jsonl", RUN="demo"
    )
    session.types(
        "millrace rescore RUN --scorer letter --derivations 4 --config run.yaml",
        says="verified pass@4",
        RUN="demo",
    )
    session.types("millrace evaluate demo", says="avg@n")
    session.types("millrace evaluate demo --follow --every 10", says="avg@n")
    before = "millrace evaluate config/recipes/demo_cpu.yaml evaluation.samples=8 -o before.json"
    session.types(before, says="pass@8")
    session.types(
        "millrace evaluate config/recipes/demo_cpu.yaml evaluation.samples=8 --model demo -o after.json",
        says="after.json",
    )
    session.types("millrace evaluate --compare before.json after.json", says="shared")
    session.types("millrace dead list RUN", RUN="demo")
    session.types(".venv/bin/millrace redis-cli demo XRANGE 'rl:{demo}:dead' - +")
    session.types(
        ".venv/bin/millrace redis-cli demo XREVRANGE 'rl:{demo}:weights' + - COUNT 1", says="version"
    )
    session.types("mkdir -p backup")
    session.types("cp -a runs/demo backup/demo")
    session.types("millrace audit demo --runs-dir backup", says="lost")
    session.types("millrace rm demo --yes")


def a_data_set(session: PageSession) -> None:
    """Measure how hard rows are: with one model, with two, and with each role started by hand."""
    session.types(
        ".venv/bin/millrace difficulty config/recipes/demo_cpu.yaml data.train.size=200 -n 8 "
        "--keep 'demo_model>0,demo_model<0.9'",
        says="kept.parquet",
    )
    session.types(
        ".venv/bin/millrace difficulty config/recipes/demo_cpu.yaml data.train.size=200 -n 8 --rescore",
        says="rows.parquet",
    )
    session.types(
        ".venv/bin/millrace agent config/recipes/demo_agents.yaml --row 3 --episodes 4",
        says="completion 3: 1",
    )
    for size in ("small", "large"):
        shutil.copytree(
            session.folder / "config" / "recipes" / "demo_model", session.folder / "models" / size
        )
    session.types(
        ".venv/bin/millrace difficulty config/recipes/demo_cpu.yaml data.train.size=50 --model weak=models/small "
        "--model strong=models/large --keep 'strong>0,weak<0.9' -o two-models",
        says="strong",
    )
    begun = session.folder / "runs" / "demo-difficulty-third" / "config.yaml"
    with contextlib.ExitStack() as terminals:
        for line in (
            (
                "python -m learner.collect --config config/recipes/demo_cpu.yaml data.train.size=50 "
                "name=demo-difficulty-third"
            ),
            "python -m generators --run demo-difficulty-third",
            "python -m scorers --run demo-difficulty-third",
        ):
            terminals.enter_context(session.keeps(line, until=begun.exists, ends=True))


def roles_by_hand(session: PageSession) -> None:
    """Start each role from a terminal of its own, and the reward server with its scorers beside them."""

    def began() -> bool:
        return (session.folder / "runs" / "first" / "config.yaml").exists()

    def said(log: Path, words: str) -> None:
        wait_until(words, lambda: words in log.read_text(errors="replace"))

    with contextlib.ExitStack() as terminals:
        opens = terminals.enter_context
        opens(session.keeps(".venv/bin/python -m scorers serve --port 8000", until=lambda: listens(8000)))
        opens(
            session.keeps(
                "python -m learner --config config/recipes/demo_cpu.yaml name=first", until=began, ends=True
            )
        )
        opens(session.keeps(".venv/bin/python -m generators --run first", until=lambda: True, ends=True))
        both = opens(session.keeps(".venv/bin/python -m scorers --run first,api", until=lambda: True))
        pools = [
            opens(session.keeps(line, until=lambda: True, ends=True))
            for line in (
                ".venv/bin/python -m scorers --run first",
                ".venv/bin/python -m scorers --run first --queues math --workers 8",
                "python -m scorers --run first --workers 8",
            )
        ]
        for log in (both, *pools):
            said(log, "self_test passed")
        wait_until("step 2", lambda: session.steps("first") >= 2)
        session.types("millrace pause first")
        session.types("millrace resume first")
        session.types("millrace drain first")
    session.types("millrace rm demo --yes", demo="first")


def services(session: PageSession) -> None:
    """Start the reward server as its page does, and the sandbox."""
    (session.folder / "token.txt").write_text("a-token-of-forty-characters-for-one-test")
    with (
        session.keeps(".venv/bin/python -m scorers serve", until=lambda: listens(8000)),
        session.keeps(".venv/bin/python -m scorers --run api --workers 8", until=lambda: True) as pool,
    ):
        wait_until("its scorers", lambda: "self_test passed" in pool.read_text(errors="replace"))
        for question in wanted():
            if question.words[0] == "curl":
                session.types(question.command)
    for line in (
        ".venv/bin/python -m scorers serve --host 0.0.0.0 --token-file token.txt",
        ".venv/bin/python -m scorers serve --config run.yaml",
    ):
        with session.keeps(line, until=lambda: listens(8000)):
            pass
    with session.keeps(".venv/bin/python -m scorers sandbox --port 8080", until=lambda: listens(8080)):
        pass


def _copy(session: PageSession, page: str, *names: str) -> None:
    """Copy files out of a page's code blocks, whose first lines have their names. Raises ValueError for another."""
    text = (session.folder / "docs" / page).read_text(encoding="utf-8")
    for name in names:
        _, found, rest = text.partition(f" {name}\n")
        if not found:
            raise ValueError(f"docs/{page} has no file {name}")
        (session.folder / name).write_text(rest.partition("```")[0], encoding="utf-8")


def a_reward_of_ones_own(session: PageSession) -> None:
    """Train on the reward of docs/scorers.md, with the files that are written there."""
    _copy(session, "scorers.md", "my_scorer.py", "run.yaml", "rows.jsonl")
    session.types(".venv/bin/millrace up run.yaml", says="finished after 20 of 20 steps")
    session.types("millrace rm demo --yes", demo="digits")


def an_agent_of_ones_own(session: PageSession) -> None:
    """Play and train the agent of docs/own_agents.md, with the files that are written there."""
    _copy(session, "own_agents.md", "my_agent.py", "own.yaml")
    demo = "config/recipes/demo_agents.yaml --layer own.yaml"
    session.types(f".venv/bin/millrace agent {demo} --row 3", says="completion 0: 1")
    up = f".venv/bin/millrace up {demo}"
    with session.keeps(up, until=partial(session.steps, "own-agent"), ends=True):
        session.types("millrace drain RUN", RUN="own-agent")
    session.types("millrace rm demo --yes", demo="own-agent")


def the_end(session: PageSession) -> None:
    """Type runs with settings over the file's; then remove everything."""
    for run, line in (
        ("demo", ".venv/bin/millrace up config/recipes/demo_cpu.yaml learner.optimizer.lr=1e-4"),
        ("demo", "MILLRACE_LEARNER__OPTIMIZER__LR=1e-4 .venv/bin/millrace up config/recipes/demo_cpu.yaml"),
        ("first", "millrace up config/recipes/demo_cpu.yaml name=first"),
        ("demo-agents", "make demo-agents"),
    ):
        with session.keeps(line, until=partial(session.steps, run), ends=True):
            session.types("millrace drain RUN", RUN=run)
        session.watches("millrace rm demo", r"\?", demo=run, answer="y")
    session.types("make clean")


ACTS: dict[str, Callable[[PageSession], None]] = {
    act.__name__: act
    for act in (
        before_a_run,
        a_run,
        a_finished_run,
        a_data_set,
        roles_by_hand,
        services,
        a_reward_of_ones_own,
        an_agent_of_ones_own,
        the_end,
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Type everything, show what came of it, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages.proof", description="Every command of the pages."
    )
    parser.add_argument("--acts", default=",".join(ACTS), help=f"of {','.join(ACTS)}; default: all")
    parser.add_argument(
        "--write", action="store_true", help=f"append to {results.RESULTS.relative_to(results.ROOT)}"
    )
    args = parser.parse_args(argv)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # nothing that it started outlives it
    commit = results.commit()
    lines = [
        *results.heading("Every command of the pages, typed"),
        "| what a person does | commands | seconds |",
        "|---|---|---|",
    ]
    typed: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="millrace-pages-") as folder:
        session = PageSession(Path(folder))
        for act in args.acts.split(","):
            before, began = len(session.typed), time.monotonic()
            try:
                ACTS[act](session)
            except Failed as error:
                sys.stdout.write(f"FAILED: {error}\n")
                return 1
            lines.append(
                f"| {act.replace('_', ' ')} | {len(session.typed) - before} | {time.monotonic() - began:.0f} |"
            )
        typed = {same(line) for line, _ in session.typed}
    left = [line for line in wanted() if same(line.command) not in typed]
    lines += [
        "",
        f"**{len(typed)} commands did what the pages say, {len(left)} were left out**"
        + "".join(f"; `{line.command}`" for line in left)
        + ".",
        *results.remarks(commit),
    ]
    sys.stdout.write("\n".join(["", *lines, ""]))
    if args.write:
        results.append(lines)
    return 0 if not left and results.commit() == commit else 1


if __name__ == "__main__":
    sys.exit(main())
