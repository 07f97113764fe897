"""`millrace trace RUN GROUP`: where a group was at what time, who worked on it, and what became of it.

In: a run's keys in Redis and its journal on disk. Out: its stages and its completions' scores, as text or one JSON
object. Reads only, and may be asked of a run that is going on. Redis is asked first and the journal after it, as groups
travel; where Redis is away, the journal tells what it knows, and that it is alone. Exit code 0: told; 1: there is no
such group, it is nowhere, or something of it is damaged.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from contextlib import closing
from pathlib import Path

from broker import group_ids
from broker.connection import RedisLink
from broker.errors import PipelineError
from broker.keys import Keys
from broker.monitoring.group_view import Sight, look
from broker.private_redis import server
from config.logs import mask
from learner.groups.evaluation import version_of
from tools.arguments import add_json, add_run, add_runs_dir
from tools.trace.journal_view import read_account
from tools.trace.narrative import tell
from tools.trace.screen import as_json, show

OUTAGE_S = 5.0  # the journal tells much without Redis: no longer than a person waits for a prompt


EPILOG = (
    "Who sampled the group and with which policy versions, who scored it and how, the step that trained on it "
    "or why none did. Exit code: 0 told; 1 there is no such group, or something of it is lost or damaged; "
    "2 wrong words. The answers' text: millrace journal show, millrace dead show."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `millrace trace`."""
    add_run(parser)
    parser.add_argument("group", type=_group_id, metavar="GROUP", help="17, 17-r1 or eval-40-7")
    add_runs_dir(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Tells a group's story. 0: told; 1: not all of it is well. Raises PipelineError where there is none."""
    sight, no_redis = None, ""
    try:
        sight = _sight(options.run, options.runs_dir, options.group)
    except PipelineError as error:
        no_redis = mask(str(error)).splitlines()[0]
    account = read_account(server.folder_of(options.run, options.runs_dir), options.group)
    story = tell(options.run, options.group, sight, no_redis, account)
    if options.json:
        sys.stdout.write(as_json(story))
    else:
        show(story)
    return 0 if story.is_whole else 1


def _sight(name: str, runs_dir: Path, group_id: str) -> Sight:
    """What Redis says; raises a PipelineError where it can't be asked."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(server.ensure_readable(name, runs_dir))
        link = stack.enter_context(closing(RedisLink(url, outage_s=OUTAGE_S, key="")))
        return look(link, Keys(name), group_id)


def _group_id(text: str) -> str:
    if not group_ids.is_training(text) and version_of(text) < 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no group: 17 is one, 17-r1 its first retry, and eval-40-7 "
            "prompt 7 of the evaluation of version 40"
        )
    return text
