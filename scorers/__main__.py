"""`python -m scorers --run NAME` starts a dispatcher and some RQ workers. Start it as often as you like, at any time.

`python -m scorers sandbox` and `python -m scorers serve` are services of their own: this machine's sandbox, and scores
over HTTP. Each has a `--help`.

The process that you start watches its children. Each child is a process of its own, and dies with its parent. A child
that ends before the run does is started again (an RQ worker ends itself when Redis is away for long; that is normal).
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import secrets
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

# `python -m` looks into the folder of the start first, where a `config.py` may lie that is not this program's.
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
    sys.path.append(sys.path.pop(0))
    os.environ["PYTHONSAFEPATH"] = "1"  # for child processes, which find a module of the user's all the same

from config.logs import set_up_logging
from config.run_names import run_name
from config.scorer_kinds import QUEUES, QueueName
from config.versions import versions

if TYPE_CHECKING:
    from broker.joining import Joined

log = logging.getLogger("scorers")


def main(argv: list[str] | None = None) -> int:
    """Parse, join the run, score until it ends. 0: done; 1: the run or this process failed; 2: it would each time."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] in (["sandbox"], ["serve"]):
        return _serve(words[0], words[1:])
    args = _parse(words)
    set_up_logging("scorer")
    faulthandler.enable(all_threads=False)  # a crash inside a library leaves its traceback in the last lines

    from broker.errors import BrokerUnavailable, Permanent, PipelineError
    from broker.joining import join
    from broker.processes import stop_on_signals

    stop = stop_on_signals()
    try:
        if len(args.run) > 1:
            from scorers.pool.several_runs import run_pools

            return run_pools(
                args.run, _shared(args) + (["--workers", str(args.workers)] if args.workers else []), stop
            )
        joined = join(args.run[0], args.runs_dir, stop, is_early=True)  # ready when the learner's model is
        return 0 if joined is None else _work(joined, args, stop)
    except PipelineError as error:
        log.error("ended part=%s reason=%s", args.part, error)  # noqa: TRY400 - the reason is what people need
        if stop.is_set() and isinstance(error, BrokerUnavailable):
            return 0  # told to end while Redis was away; leases run out
        return 2 if isinstance(error, Permanent) else 1
    except Exception:
        log.exception("ended part=%s by a bug or a broken machine", args.part)
        return 1


def _serve(service: str, words: list[str]) -> int:
    """Run a service that is no part of a run's pool."""
    if service == "sandbox":
        from scorers.sandbox_service import serve

        return serve(words)
    from scorers.reward_server.command import serve as serve_rewards

    return serve_rewards(words)


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scorers", description=__doc__)
    parser.add_argument(
        "--run",
        type=_runs,
        required=True,
        metavar="NAME[,NAME]",
        help="the run to join, or several, with a pool each; `api` is that of the reward server",
    )
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="where runs are, if REDIS_URL is not set"
    )
    parser.add_argument(
        "--queues",
        type=_queues,
        metavar="QUEUE,...",
        help=f"what the workers serve, in this order, of {','.join(QUEUES)}; default: all that the "
        "run's tasks use",
    )
    parser.add_argument(
        "--workers",
        type=_number,
        metavar="N",
        help="RQ workers, of each run; default: scorers.workers of the run",
    )
    parser.add_argument(
        "--part",
        choices=("all", "dispatcher", "worker"),
        default="all",
        help="all: both, until the run ends; the others: that process alone, until stopped",
    )
    parser.add_argument(
        "--leave-slow",
        action="store_true",
        help="with --part worker: leave groups with answers that take long to the other workers",
    )
    parser.add_argument("--version", action="version", version=versions())
    args = parser.parse_args(words)
    if len(args.run) > 1 and args.part != "all":
        parser.error("--part is of one run")
    return args


def _work(joined: Joined, args: argparse.Namespace, stop: threading.Event) -> int:
    """Run the part of one run's pool that was asked for. Raises PipelineError."""
    if args.part == "all":
        from scorers.build import served
        from scorers.pool.supervisor import PoolSupervisor

        served(joined.run.scorers, args.queues)  # or raise, before each worker does
        return PoolSupervisor(joined, ["--run", joined.run.name, *_shared(args)], args.workers).run(stop)
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    if args.part == "dispatcher":
        from scorers.pool.dispatcher import run_dispatcher

        return run_dispatcher(joined, name, stop)
    from scorers.pool.worker import run_worker

    return run_worker(joined, name, stop, args.queues, leaves_slow=args.leave_slow)


def _shared(args: argparse.Namespace) -> list[str]:
    """Return the options that every process below this one is given, too."""
    return ["--runs-dir", str(args.runs_dir), *(["--queues", ",".join(args.queues)] if args.queues else [])]


def _runs(text: str) -> tuple[str, ...]:
    """Parse names of runs, each once."""
    return tuple(dict.fromkeys(map(run_name, text.split(","))))


def _queues(text: str) -> tuple[QueueName, ...]:
    """Parse names of queues, in the order given."""
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in QUEUES]:
        raise argparse.ArgumentTypeError(
            f"no queue {', '.join(map(repr, unknown))}; there are {', '.join(QUEUES)}"
        )
    return tuple(queue for name in names for queue in QUEUES if queue == name)


def _number(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of workers")
    return int(text)


if __name__ == "__main__":
    code = main()
    gc.freeze()  # else the interpreter's last collections take a while
    sys.exit(code)
