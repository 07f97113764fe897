"""`python -m learner --config FILE [key=value ...]`: train a run.

Exit codes: 0 done (or the run had already finished), 1 failed with the reason in its status, 2 a bad configuration or a
name that is taken.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

# `python -m` searches the current folder first, where an unrelated `config.py` may lie.
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
    sys.path.append(sys.path.pop(0))
    os.environ["PYTHONSAFEPATH"] = "1"  # for child processes, which find a user's modules anyway

from config.explanations import ConfigError
from config.learner.training import DeepSpeedConfig
from config.loading import load_run, to_yaml
from config.logs import set_up_logging
from config.run import Run
from config.versions import versions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from learner.launch.ranks import Ranks
    from learner.session import TrainingSession
    from learner.training.backend import TrainingBackend

log = logging.getLogger("learner")

POLL_S = 0.2

USAGE = """usage: python -m learner --config FILE [key=value ...] [--print-config] [--version] [--help]

Train the run that FILE describes. Keys are nested with dots: learner.optimizer.lr=1e-6.
Values come from FILE, then MILLRACE_... variables (nested with __), then the command line.
Redis is where REDIS_URL says; unset, a private one is started in the run's folder.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, import, run, return a code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--help" in words or "-h" in words:
        sys.stdout.write(USAGE)
        return 0
    if "--version" in words:
        sys.stdout.write(versions() + "\n")
        return 0
    printing = "--print-config" in words
    try:
        run = load_run([word for word in words if word != "--print-config"])
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if printing:
        sys.stdout.write(to_yaml(run, mask=True))
        return 0
    set_up_logging("learner")
    return _start(run, words)


def _start(run: Run, words: Sequence[str]) -> int:
    from learner.launch.environment import set_environment
    from learner.launch.rank_failure import report_death
    from learner.launch.ranks import launch_or_join, say_last

    if _is_finished(run):
        return 0
    set_environment()
    _tell_of_groups(run)
    try:
        _check_places(run)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    ranks = launch_or_join(run, words, report=partial(report_death, run))
    if isinstance(ranks, int):
        return ranks
    try:
        return _lead(run, ranks.world_size) if ranks.rank == 0 else _follow(run, ranks)
    except Exception as error:  # logged, since the log masks secrets in tracebacks
        log.exception("ended rank=%d", ranks.rank)
        say_last(error)
        return 1


def _tell_of_groups(run: Run) -> None:
    """Warn at every start where no group can train."""
    from learner.launch.preflight import single_answers

    if os.environ.get("RANK", "0") == "0" and (says := single_answers(run)):
        log.warning("group_of_one %s", says)


def _check_places(run: Run) -> None:
    """Check the paths of a new run before torch is imported; of a begun run, the session reports faults."""
    from learner.journal.ledger import ledgers
    from learner.launch.preflight import check_places

    if os.environ.get("RANK", "0") == "0" and not ledgers(run.folder / "journal"):
        check_places(run)


def _is_finished(run: Run) -> bool:
    """Return whether the run's folder says that the run has finished, and log it."""
    from learner.status import has_reached_end, read_status, where_the_model_is

    status = read_status(run.folder)
    is_finished = status.get("status") == "finished" and has_reached_end(run, int(status.get("version", 0)))
    if is_finished:
        log.info("run %s is finished; %s", run.name, where_the_model_is(run.folder))
    return is_finished


def _follow(run: Run, ranks: Ranks) -> int:
    has_joined = threading.Event()
    threading.Thread(
        target=_leave_if_finished, args=(run, has_joined), name="leave-if-finished", daemon=True
    ).start()
    from learner.training.build import build_backend

    policy = build_backend(run, rank=ranks.rank, world_size=ranks.world_size)
    has_joined.set()
    policy.follow()
    return 0


def _leave_if_finished(run: Run, has_joined: threading.Event) -> None:
    """Exit if rank 0 finds nothing to do: it then never reaches the ranks' rendezvous."""
    while not has_joined.wait(POLL_S):
        if _is_finished(run):
            os._exit(0)  # the main thread is inside torch, and waits for rank 0


def _lead(run: Run, world_size: int) -> int:
    from learner.launch.leading import lead
    from learner.session import TrainingSession

    return lead(
        run,
        lambda link: TrainingSession(run, link),
        lambda session, stop: session.train(lambda: _load(session, world_size), stop),
        is_alone=world_size == 1,
    )


def _load(session: TrainingSession, world_size: int) -> tuple[PreTrainedTokenizerBase, TrainingBackend]:
    """Load tokenizer and policy, once the run's name is free. The policy comes last: nothing fails after it."""
    from learner.base_model.base_files import report, what_is_odd
    from learner.base_model.own_head import settled
    from learner.data.prompts import check_reference, load_tokenizer
    from learner.training.build import build_backend
    from learner.training.lora import check_adapter

    run = session.run
    tokenizer = load_tokenizer(run)
    check_reference(run, tokenizer)
    check_adapter(run)
    if isinstance(
        run.learner.backend, DeepSpeedConfig
    ):  # another backend loads and writes its model differently
        report(what_is_odd(run.model, tokenizer), run.model)
        session.status.run = settled(run)  # for the generators
    return tokenizer, build_backend(run, rank=0, world_size=world_size)


if __name__ == "__main__":
    code = main()
    gc.freeze()  # else the interpreter's last collections of all that torch holds take a second
    sys.exit(code)
