"""The `millrace` command.

In: a verb and its words. Out: the verb's exit code: 0 done, 1 failed, 2 bad configuration or usage. Each verb imports
what it needs when it is called, so that `--help` and a typo are answered at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from config.run_names import run_name


def main(argv: Sequence[str] | None = None) -> int:
    """Find the verb, call it, turn what people can act on into one message."""
    verbs = "\n".join(f"  {verb:<11} {text}" for verb, (text, _) in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="millrace",
        description="Asynchronous reinforcement learning from verifiable rewards.",
        epilog=f"commands:\n{verbs}\n\n`millrace COMMAND --help` says more.",
        usage="millrace [--version] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="the versions that matter, and stop")
    parser.add_argument("command", nargs="?", choices=VERBS, metavar="COMMAND", help="one of those below")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.version:
        from config.versions import versions

        sys.stdout.write(versions() + "\n")
        return 0
    if args.command is None:
        parser.print_help()
        return 2

    from broker.errors import PipelineError
    from config.loading import ConfigError

    try:
        return VERBS[args.command][1](args.words)
    except (ConfigError, PipelineError) as error:
        from config.logs import mask

        sys.stderr.write(f"{mask(str(error))}\n")
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return 130


def _up(words: Sequence[str]) -> int:
    parser = _parser("up", "CONFIG [key=value ...]")
    parser.add_argument("config", metavar="CONFIG", help="YAML file of the run")
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over the file's: learner.steps=10"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the commands and their GPUs; start nothing"
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of the table, on a terminal too")
    args = parser.parse_intermixed_args(words)
    from config.loading import load_run

    given = ["--config", args.config, *args.values]
    run = load_run(given)  # a typo is answered before anything else is imported
    from learner.launch.preflight import check_places

    check_places(run)
    from tools.up.command import up

    return up(run, given, dry_run=args.dry_run, plain=args.plain)


def _chaos(words: Sequence[str]) -> int:
    parser = _parser("chaos", "CONFIG --minutes N [key=value ...]")
    parser.epilog = (
        "Kills, stops and restarts the run's own processes and its private Redis, starts them again, and "
        "drains the run in the end. learner.steps is set high enough unless it is among the settings. "
        "Exit code: 0 the run ended well and nothing is lost or doubled; 1 otherwise."
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file of the run")
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over the file's: learner.steps=60"
    )
    parser.add_argument("--minutes", type=float, required=True, metavar="N", help="how long it is disturbed")
    parser.add_argument(
        "--every", type=float, default=10.0, metavar="SECONDS", help="between two disturbances (10)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="of the dice (0)")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object; everything else goes to standard error"
    )
    args = parser.parse_intermixed_args(words)
    if not (args.minutes > 0 and args.every > 0):
        parser.error("--minutes and --every must be positive")
    from config.loading import load_run

    given = ["--config", args.config, *args.values]
    run = load_run(given)
    from learner.launch.preflight import check_places

    check_places(run)
    from tools.chaos.command import chaos
    from tools.chaos.monkey import Orders

    return chaos(
        run, given, Orders(seconds=60 * args.minutes, every_s=args.every, seed=args.seed), as_json=args.json
    )


def _runs(words: Sequence[str]) -> int:
    parser = _parser("runs", "")
    _add_runs_dir(parser)
    args = parser.parse_args(words)
    from tools.runs.command import list_runs

    return list_runs(args.runs_dir)


def _rm(words: Sequence[str]) -> int:
    parser = _parser("rm", "RUN")
    parser.add_argument("run", type=run_name, metavar="RUN")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="even if the run is alive: it is killed")
    _add_runs_dir(parser)
    args = parser.parse_args(words)
    from tools.runs.remove import remove

    return remove(args.run, args.runs_dir, is_sure=args.yes, is_forced=args.force)


def _redis_cli(words: Sequence[str]) -> int:
    parser = _parser("redis-cli", "RUN [args ...]")
    _add_runs_dir(parser)
    parser.add_argument("run", type=run_name, metavar="RUN")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="as for redis-cli; none opens its prompt")
    args = parser.parse_args(words)
    from tools.runs.redis_cli import redis_cli

    return redis_cli(args.run, args.runs_dir, args.args)


def _audit(words: Sequence[str]) -> int:
    from tools.audit.command import main as audit

    return audit(words)


def _journal(words: Sequence[str]) -> int:
    from tools.journal.command import main as journal

    return journal(words)


def _replay(words: Sequence[str]) -> int:
    from tools.journal.replay import main as replay

    return replay(words)


def _dead(words: Sequence[str]) -> int:
    from tools.dead.command import main as dead

    return dead(words)


def _trace(words: Sequence[str]) -> int:
    from tools.trace.command import main as trace

    return trace(words)


def _top(words: Sequence[str]) -> int:
    from tools.top.command import main as top

    return top(words)


def _metrics(words: Sequence[str]) -> int:
    from tools.metrics.command import main as metrics

    return metrics(words)


def _score(words: Sequence[str]) -> int:
    parser = _parser("score", "FILE [--config CONFIG [key=value ...]]")
    parser.epilog = (
        "A line of FILE is a JSON object with the response in `llm_output`, beside `verification_info` or "
        "verl's `data_source`, `reward_model` and `extra_info`. Empty lines are passed over. Exit code: 0 "
        "every line has a result, whatever it says; 1 nothing could be scored here; 2 bad usage; 130 "
        "interrupted."
    )
    parser.add_argument("file", metavar="FILE", help="JSON lines; - reads standard input")
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over CONFIG's: scorers.credit=all"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes that score (as many as CPUs)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the results go (standard output)")
    parser.add_argument(
        "--config", metavar="CONFIG", help="a run's YAML file: score as its `scorers` section says"
    )
    args = parser.parse_intermixed_args(words)
    if args.workers < 1:
        parser.error("--workers must be at least 1")
    if args.values and args.config is None:
        parser.error(f"{args.values[0]!r} sets a key of a configuration: give --config too")
    config = None
    if args.config is not None:
        from config.loading import load_run

        config = load_run(["--config", args.config, *args.values]).scorers
    from tools.score.command import score_file

    return score_file(args.file, args.out, config, args.workers)


def _rescore(words: Sequence[str]) -> int:
    from tools.score.rescore import main as rescore

    return rescore(words)


def _judge_check(words: Sequence[str]) -> int:
    from tools.judge_check.command import main as judge_check

    return judge_check(words)


def _doctor(words: Sequence[str]) -> int:
    from tools.doctor.command import main as doctor

    return doctor(words)


def _control(verb: str) -> Callable[[Sequence[str]], int]:
    def call(words: Sequence[str]) -> int:
        parser = _parser(verb, "RUN")
        parser.add_argument("run", type=run_name, metavar="RUN")
        if verb == "drain":
            parser.add_argument(
                "--wait",
                type=float,
                default=0.0,
                metavar="SECONDS",
                help="wait so long for the run's end, and fail if it has not come (0: do not wait)",
            )
        _add_runs_dir(parser)
        args = parser.parse_args(words)
        from broker.protocol.run_state import DRAIN, GO_ON, PAUSE
        from tools.runs.control import control

        wanted = {"drain": DRAIN, "pause": PAUSE, "resume": GO_ON}[verb]
        return control(args.run, args.runs_dir, wanted, wait_s=getattr(args, "wait", 0.0))

    return call


VERBS: Mapping[str, tuple[str, Callable[[Sequence[str]], int]]] = {
    "up": ("run a configuration on this machine, start to end", _up),
    "doctor": ("look what is in the way of a run here, and say what to do about it", _doctor),
    "chaos": ("run a configuration while its processes and its Redis are killed, and audit it", _chaos),
    "drain": ("let nothing new in, train what is out, checkpoint and end", _control("drain")),
    "pause": ("let nothing new in and train nothing, until `resume`", _control("pause")),
    "resume": ("go on after `pause`, or after a `drain` that is not over", _control("resume")),
    "top": ("watch a run: who works, who waits for whom, what holds it up", _top),
    "metrics": ("serve a run's numbers to Prometheus", _metrics),
    "runs": ("list the runs that are here", _runs),
    "rm": ("remove a run: its folder and its keys in Redis", _rm),
    "redis-cli": ("open a run's Redis, or ask it something", _redis_cli),
    "trace": ("follow one group: where it was when, who worked on it, what became of it", _trace),
    "score": ("score a file of responses, without a run", _score),
    "judge-check": ("measure how far a judge agrees with labels that are known", _judge_check),
    "journal": ("list, show or export what a run trained on", _journal),
    "replay": ("train a run's journal again, offline, and compare the weights bit for bit", _replay),
    "rescore": ("put what a run trained on through another scorer, and compare", _rescore),
    "audit": ("count every group that was ever issued: trained, dropped, dead, in flight, lost", _audit),
    "dead": ("list, show, retry or purge what could not be processed", _dead),
}


def _parser(verb: str, usage: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"millrace {verb}",
        description=VERBS[verb][0].capitalize() + ".",
        usage=f"millrace {verb} [options] {usage}",
    )


def _add_runs_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)"
    )


if __name__ == "__main__":
    sys.exit(main())
