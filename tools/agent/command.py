"""`millrace agent CONFIG --row N`: play one row, and show its messages, how it ended, and its score.

In: a configuration with an environment, and the number of a row. Out: the conversation of each episode, its sequences,
its end, its reward and its score. The run's own policy plays in a separate run without training (`tools.collect`), with
one process of each role of `millrace up`. With `--endpoint` a model behind an address plays in this process, without
generator, Redis and weights (`tools.agent.outside_play`).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from config.explanations import ConfigError
from config.loading import load_run
from config.run import Run
from tools.agent.endpoint import add_endpoint, endpoint_of
from tools.agent.progress import Progress, what_starts
from tools.arguments import UsageError, add_config, add_runs_dir, layer_words, number_of

if TYPE_CHECKING:
    from broker.messages import Prompt

EPILOG: Final = (
    "The run's own policy is model.path, or a finished run's by --model; what it played stays a run, which `millrace "
    "journal show` shows again. With --endpoint a model that speaks OpenAI's chat API plays in its place: agents that "
    "own their loop get an address and a key of the gateway as in a run, in any of its APIs. Such a model gives no "
    "token ids, so nothing of it can be trained. Exit code: 0 every episode has a score; 1 one has none, or it could "
    "not be played; 2 a configuration or words that can't be used."
)
# One of each role, and one attempt, since people want to see a failure. CONFIG's values come after and may differ.
FEW: Final = ("generators.count=1", "agents.count=1", "scorers.workers=1", "agents.max_attempts=1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace agent`."""
    add_config(parser)
    parser.add_argument(
        "--row", type=_from_0, default=0, metavar="N", help="the row's number in data.train (0, the first)"
    )
    parser.add_argument(
        "--episodes", type=number_of("episodes"), default=1, metavar="N", help="episodes to play of it (1)"
    )
    add_endpoint(parser, "play")
    parser.add_argument(
        "--model",
        metavar="M",
        help="a hub's name, a folder, or a finished run (model.path); with --endpoint its name there",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the commands; start nothing")
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Play and show. Raises UsageError, ConfigError, PipelineError."""
    if options.endpoint is None and options.key_variable is not None:
        raise UsageError("--key-variable goes with --endpoint")
    words = _words(options)
    wanted = load_run(words)
    if not wanted.has_agents:
        raise ConfigError(
            f"{options.config}: no task of scorers.tasks has an environment, so nobody plays; `millrace evaluate` "
            "samples answers of one turn"
        )
    if options.endpoint is not None:
        return _with_endpoint(options, wanted)
    return _with_policy(options, wanted, words)


def _words(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the configuration, with the settings for a single row."""
    words = ["--config", options.config, *layer_words(options), *FEW, *options.values]
    if options.model is not None and options.endpoint is None:
        from tools.evaluate.command import model_path

        words.append(f"model.path={json.dumps(model_path(options.model, options.runs_dir))}")
    return [*words, f"sampling.group_size={options.episodes}"]


def _with_policy(options: argparse.Namespace, wanted: Run, words: Sequence[str]) -> int:
    """Let the run's own policy play."""
    progress = Progress()

    numbered = (f"{wanted.name}-agent-{number}" for number in itertools.count(1))
    name = next(name for name in numbered if not (wanted.runs_dir / name).exists())
    words = [*words, f"name={name}"]
    played = load_run(words)
    if options.dry_run:
        from tools.collect.launch import plan_of

        plan = plan_of(played, words, "train", row=options.row)
        sys.stdout.write("".join(f"{command}\n" for command in plan))
        return 0
    progress(f"reading row {options.row} with the tokenizer of {played.model.path}")
    _prompt(played, options.row)  # before any process starts
    from tools.agent.console import PlayConsole
    from tools.agent.shown import show_played
    from tools.collect.launch import collected

    with contextlib.redirect_stdout(sys.stderr):
        progress(what_starts(played))
        collected(played, words, "train", row=options.row, console=PlayConsole(progress))
    return show_played(played)


def _with_endpoint(options: argparse.Namespace, wanted: Run) -> int:
    """Let a model behind an address play."""
    if options.dry_run:
        raise UsageError("--dry-run goes without --endpoint, which starts no role")
    url, key = endpoint_of(options)
    progress = Progress()
    progress(f"reading row {options.row} with the tokenizer of {wanted.model.path}")
    prompt = _prompt(wanted, options.row)
    from tools.agent.outside_play import play
    from tools.agent.shown import show_outside

    progress(f"starting the environment of task {prompt.task} here, for the model behind {url}")
    return show_outside(prompt, play(wanted, prompt, url, model=options.model, key=key, say=progress))


def _prompt(wanted: Run, row: int) -> Prompt:
    """Return the prompt of a row, as the collector makes it. Raises RunFailed, RowError, ConfigError."""
    from learner.collect.rows import open_row
    from learner.collect.settings import collecting
    from learner.data.prompts import load_tokenizer

    found = open_row(collecting(wanted), row, load_tokenizer(wanted)).training_prompt("0", first_row=0)
    if not wanted.plays(found.task):
        raise ConfigError(
            f"row {row} is of task {found.task!r}, which has no environment: `millrace evaluate` samples answers of "
            "one turn"
        )
    return found


def _from_0(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a row; rows are counted from 0")
    return int(text)
