"""`make prove-agents`: is every kind of environment played with the real package, and every client trained, as we say?

In: names of kinds, all without any. Out: a table of kinds with the package's version, the episodes that a scripted
policy played, or that unmodified clients were trained in, and what held; `--write` puts it at the end of
benchmarks/RESULTS.md. Each kind has an interpreter of its own, made below `--out` with pinned packages, and games that
need no download. A kind whose packages can't be installed here is skipped, with the reason. Exit code 1 where something
did not hold.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import results
from benchmarks.proofs.agents import (
    clients,
    games,
    nemo_gym,
    openenv,
    tools,
    tries,
    verifiers,
    verl,
    workplaces,
)
from benchmarks.proofs.agents.interpreters import Packages, make, version
from benchmarks.proofs.agents.stage import KindStage, Missing

OURS = "millrace"  # the interpreter of the proof itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenKind:
    """A kind of environment, and who plays it."""

    name: str
    title: str  # as a task's section has it
    play: Callable[[KindStage], None]
    package: str = ""  # of Millrace's own Python; "": none but itself
    python: Packages | None = None  # of the children; None: Millrace's own
    others: dict[str, Packages] = field(default_factory=dict)  # of servers, made before the children's


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOutcome:
    """What became of a kind."""

    kind: ProvenKind
    package: str
    episodes: int
    held: dict[str, bool]
    skipped: str
    seconds: float
    left_out: Sequence[str] = ()
    conversations: int = 0
    sequences: int = 0


VERL = Packages(
    "verl", ("ray==2.60.0", "tensordict==0.15.3", "omegaconf==2.4.0"), ("verl==0.9.1",), (OURS,)
)  # torch and transformers are Millrace's
KINDS = (
    ProvenKind(name="tools", title="tools: functions", play=tools.functions),
    ProvenKind(
        name="servers",
        title="tools: servers",
        play=tools.servers,
        python=Packages("mcp", ("mcp==2.3.0",)),
        others={"server": Packages("mcp-server-time", ("mcp-server-time==2026.10.19",))},
    ),
    ProvenKind(name="programs", title="tools: programs", play=tools.programs),
    ProvenKind(
        name="custom", title="custom", play=tools.custom, python=Packages("numpy", ("numpy==1.26.4",))
    ),
    ProvenKind(
        name="gymnasium",
        title="gymnasium",
        play=games.gymnasium,
        python=Packages("gymnasium", ("gymnasium==1.4.0",)),
    ),
    ProvenKind(
        name="textarena",
        title="textarena",
        play=games.textarena,
        python=Packages("textarena", ("textarena==0.7.4",)),
    ),
    ProvenKind(name="gem", title="gem", play=games.gem, python=Packages("gem-llm", ("gem-llm==0.1.0",))),
    ProvenKind(
        name="openenv",
        title="openenv",
        play=openenv.openenv,
        others={"server": Packages("openenv", ("openenv==0.10.0",))},
    ),
    ProvenKind(
        name="verifiers",
        title="verifiers: tasksets",
        play=verifiers.tasksets,
        python=Packages("verifiers", ("verifiers==0.4.0",)),
    ),
    ProvenKind(
        name="verifiers-old",
        title="verifiers: load_environment",
        play=verifiers.loaded,
        python=Packages("verifiers", ("verifiers==0.1.14", "datasets==4.6.1")),
    ),
    ProvenKind(
        name="nemo_gym",
        title="nemo_gym",
        play=nemo_gym.nemo_gym,
        others={"server": Packages("nemo-gym", ("nemo-gym==0.4.0",), version="3.12")},
    ),
    ProvenKind(
        name="reasoning_gym", title="reasoning_gym", play=tries.reasoning_gym, package="reasoning-gym"
    ),
    ProvenKind(name="code", title="code", play=tries.code),
    ProvenKind(name="harbor", title="harbor", play=workplaces.harbor, package="openai"),
    ProvenKind(name="swe", title="swe", play=workplaces.swe, package="openai"),
    ProvenKind(name="verl", title="verl_tools", play=verl.new, python=VERL),
    ProvenKind(
        name="verl-old",
        title="verl_tools",
        play=verl.old,
        python=Packages("verl", alone=("verl==0.4.1",), behind=("verl", OURS)),
        others={"verl": VERL},
    ),
    ProvenKind(
        name="openai",
        title="agent: openai",
        play=clients.openai,
        python=Packages("openai", ("openai==3.57.0",)),
    ),
    ProvenKind(
        name="anthropic",
        title="agent: anthropic",
        play=clients.anthropic,
        python=Packages("anthropic", ("anthropic==2.14.0",)),
    ),
    ProvenKind(
        name="openai-agents",
        title="agent: openai-agents",
        play=clients.openai_agents,
        python=Packages("openai-agents", ("openai-agents==0.24.0",)),
    ),
    ProvenKind(
        name="langgraph",
        title="agent: langgraph",
        play=clients.langgraph,
        python=Packages("langgraph", ("langgraph==1.2.24", "langchain-openai==1.7.4")),
    ),
    ProvenKind(
        name="litellm",
        title="agent: litellm",
        play=clients.litellm,
        python=Packages("litellm", ("litellm==1.110.2",)),
    ),
    ProvenKind(
        name="smolagents",
        title="command: smolagents",
        play=clients.smolagents,
        python=Packages("smolagents", ("smolagents[openai]==1.26.0",)),
    ),
    ProvenKind(
        name="mini-swe-agent",
        title="command: mini-swe-agent",
        play=clients.mini_swe_agent,
        python=Packages("mini-swe-agent", ("mini-swe-agent==2.4.6",)),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Play the kinds that the arguments name, show the table, and write it down if asked."""
    names = [kind.name for kind in KINDS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.agents", description="Every kind of environment, for real."
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(names)}; none: all")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where interpreters are made, and found again"
    )
    results.add_write(parser)
    args = parser.parse_args(argv)
    if unknown := [name for name in args.kinds if name not in names]:
        parser.error(f"no kind {', '.join(unknown)}; there are {', '.join(names)}")
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    commit, heading = results.commit(), results.heading("Every kind of environment, with the real package")
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="prove-agents-") as temporary:
        out = (args.out or Path(temporary)).resolve()
        out.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            if not args.kinds or kind.name in args.kinds:
                outcomes.append(_outcome(kind, out))
                sys.stderr.write(f"{_row(outcomes[-1])}\n")
    lines = [*heading, *as_table(outcomes), *results.remarks(commit)]
    sys.stdout.write("\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if is_proven(outcomes) else 1


def _outcome(kind: ProvenKind, out: Path) -> KindOutcome:
    """Make the interpreters of a kind, and play it."""
    folder, seconds = out / f"kind-{kind.name}", 0.0
    folder.mkdir(exist_ok=True)
    stage, package = KindStage(folder), f"Python {platform.python_version()}"
    skipped = ""
    try:
        stage.others = {OURS: Path(sys.executable)}
        for name, packages in kind.others.items():
            stage.others[name] = make(out / f"python-{packages.named}", packages, stage.others)
        if kind.python is not None:
            python = out / f"python-{kind.name}"
            stage.python = make(python, kind.python, stage.others)
        package = _package(kind, stage) or package
        started = time.monotonic()
        kind.play(stage)
        seconds = time.monotonic() - started
    except Missing as error:
        skipped = str(error)
    except Exception as error:  # noqa: BLE001 - a kind that is not as expected is told, and the others are played
        stage.holds(f"played to its end: {type(error).__name__} {error!s:.200}", False)
    return KindOutcome(
        kind=kind,
        package=package,
        episodes=stage.episodes,
        held=stage.held,
        skipped=skipped,
        seconds=seconds,
        left_out=stage.left_out,
        conversations=stage.conversations,
        sequences=stage.sequences,
    )


def _package(kind: ProvenKind, stage: KindStage) -> str:
    """Return the packages of a kind with their versions."""
    pairs = [(stage.python, kind.python)] if kind.python and stage.python else []
    pairs += [(Path(sys.executable), Packages(kind.package))] if kind.package else []
    pairs += [(stage.others[name], one) for name, one in kind.others.items() if one is not VERL]
    return ", ".join(f"{one.named} {version(python, one.named)}" for python, one in pairs)


def is_proven(outcomes: Sequence[KindOutcome]) -> bool:
    """Tell whether all that was played held, and something was."""
    played = [one for one in outcomes if not one.skipped]
    return bool(played) and all(one.held and all(one.held.values()) for one in played)


def as_table(outcomes: Sequence[KindOutcome]) -> list[str]:
    """Write the results as lines of a Markdown table, and below it what held of each kind."""
    lines = [
        "| kind | package | episodes | conversations | sequences | held | of | s |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [_row(one) for one in outcomes]
    verdict = "Proven" if is_proven(outcomes) else "NOT proven"
    lines += ["", f"**{verdict}**: what a scripted policy read, was paid and was told; seconds of play."]
    if any(one.sequences for one in outcomes):
        lines += [
            "",
            (
                "Clients were trained for two steps: episodes of those steps, the conversations that the agents had "
                "in them by their own count, and the sequences that these trained as."
            ),
        ]
    lines.append("")
    for one in outcomes:
        told = [f"{'' if is_held else 'NOT: '}{what}" for what, is_held in one.held.items()]
        told += [f"left out: {what}" for what in one.left_out]
        said = f"skipped: {one.skipped}" if one.skipped else "; ".join(told)
        lines.append(f"- {one.kind.title}, {one.package}: {said}.")
    return lines


def _row(one: KindOutcome) -> str:
    held = "skipped" if one.skipped else str(sum(one.held.values()))
    counts = f"{one.conversations or ''} | {one.sequences or ''}"
    of = f"{held} | {len(one.held)} | {one.seconds:.0f}"
    return f"| {one.kind.title} | {one.package} | {one.episodes} | {counts} | {of} |"


if __name__ == "__main__":
    sys.exit(main())
