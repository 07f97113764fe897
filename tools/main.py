# PYTHON_ARGCOMPLETE_OK
"""Run the `millrace` command.

In: a verb and its arguments. Out: the verb's exit code: 0 done, 1 failed, 2 bad configuration or usage, 130
interrupted, 141 where the reader of its output has gone. A verb is a module with `add_arguments(parser)` and
`run(options)`, imported when the verb is called, so that `--help` and typos are answered at once. To add a verb: its
module, and one line of `VERBS`.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import errno
import gc
import os
import select
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast


class Verb(NamedTuple):
    """A verb's module, description, and example."""

    module: str
    about: str
    example: str


VERBS: Mapping[str, Verb] = {
    "up": Verb(
        "tools.up.command",
        "run a configuration on this machine, start to end",
        "millrace up config/recipes/demo_cpu.yaml learner.steps=20",
    ),
    "import": Verb(
        "tools.imports.command",
        "write a run of verl, II-VERL, TinyV or Reasoning360 as a run here, and account for every key",
        "millrace import train.sh trainer.total_epochs=1 -o run.yaml",
    ),
    "keys": Verb(
        "tools.keys.command",
        "say what the keys of the configuration and the metrics mean",
        "millrace keys max_lag",
    ),
    "doctor": Verb(
        "tools.doctor.command",
        "look for what is in the way of a run here, and say what to do about it",
        "millrace doctor config/recipes/demo_cpu.yaml",
    ),
    "plan": Verb(
        "tools.plan.command",
        "say what a run needs of memory, Redis and rates, before any hardware is touched",
        "millrace plan config/recipes/math_qwen2.5-7b_8gpu.yaml --gpu H100",
    ),
    "prepare": Verb(
        "tools.prepare.command",
        "make rows to train on of a published data set, or of made problems",
        "millrace prepare gsm8k -o gsm8k.parquet",
    ),
    "data": Verb(
        "tools.data.command",
        "read, route, tokenize and test every row of a run's data, before it is started",
        "millrace data check config/recipes/demo_cpu.yaml",
    ),
    "think-template": Verb(
        "tools.think_template.command",
        "copy a model with a chat template that has it think before it answers",
        "millrace think-template config/recipes/demo_model -o demo-think",
    ),
    "difficulty": Verb(
        "tools.difficulty.command",
        "measure how often models solve each row of a data set, and keep the rows within bounds",
        "millrace difficulty config/recipes/demo_cpu.yaml --keep 'demo_model>0,demo_model<0.9'",
    ),
    "chaos": Verb(
        "tools.chaos.command",
        "run a configuration while its processes and its Redis are killed, and audit it",
        "millrace chaos config/recipes/demo_cpu.yaml --minutes 5",
    ),
    "drain": Verb(
        "tools.runs.control",
        "let nothing new in, train the groups under way, checkpoint and end",
        "millrace drain demo --wait 120",
    ),
    "pause": Verb(
        "tools.runs.control", "let nothing new in and train nothing, until `resume`", "millrace pause demo"
    ),
    "resume": Verb(
        "tools.runs.control",
        "go on after `pause`, or after a `drain` that is not over",
        "millrace resume demo",
    ),
    "top": Verb(
        "tools.top.command",
        "watch a run: who works, who waits for whom, what holds it up",
        "millrace top demo --once --json",
    ),
    "metrics": Verb(
        "tools.metrics.command", "serve a run's numbers to Prometheus", "millrace metrics demo --port 9090"
    ),
    "runs": Verb("tools.runs.command", "list the runs that are here", "millrace runs --runs-dir runs"),
    "rm": Verb(
        "tools.runs.remove", "remove a run: its folder and its keys in Redis", "millrace rm demo --yes"
    ),
    "redis-cli": Verb(
        "tools.runs.redis_cli",
        "open a run's Redis, or ask it something",
        "millrace redis-cli demo HGET 'rl:{demo}:where' 17",
    ),
    "trace": Verb(
        "tools.trace.command",
        "follow one group: where it was when, who worked on it, what became of it",
        "millrace trace demo 17",
    ),
    "score": Verb(
        "tools.score.command",
        "score a file of responses, without a run",
        "millrace score responses.jsonl --out scores.jsonl",
    ),
    "judge-check": Verb(
        "tools.judge_check.command",
        "measure how far a judge agrees with labels that are known",
        "millrace judge-check labelled.jsonl --task judge",
    ),
    "journal": Verb(
        "tools.journal.command",
        "list, show or export what a run trained on",
        "millrace journal export demo --out answers.jsonl",
    ),
    "report": Verb(
        "tools.report.command",
        "write a run, or two side by side, as one HTML page",
        "millrace report demo -o demo.html",
    ),
    "export": Verb(
        "tools.export.command",
        "write a version of a run's weights as a folder that transformers and vLLM load",
        "millrace export demo --version 30 -o model-30",
    ),
    "replay": Verb(
        "tools.replay.command",
        "train a run's journal again, offline, and compare the weights bit for bit",
        "millrace replay demo --steps 10-20",
    ),
    "rescore": Verb(
        "tools.rescore.command",
        "put what a run trained on through another scorer, and compare",
        "millrace rescore demo --scorer math scorers.tasks.math.scorer.require_box=false",
    ),
    "audit": Verb(
        "tools.audit.command",
        "count every group that was ever issued: trained, dropped, dead, in flight, lost",
        "millrace audit demo",
    ),
    "evaluate": Verb(
        "tools.evaluate.command",
        "sample and score held-out sets with a model, and say how often it is right",
        "millrace evaluate config/recipes/demo_cpu.yaml evaluation.samples=8",
    ),
    "agent": Verb(
        "tools.agent.command",
        "play one row of a task with an environment, and show what was said and what it is worth",
        "millrace agent config/recipes/demo_agents.yaml --row 3",
    ),
    "dead": Verb(
        "tools.dead.command",
        "list, show, retry or purge what could not be processed",
        "millrace dead retry demo --reason deadline",
    ),
}


# What people type for a verb with a dissimilar name.
MEANT: Mapping[str, str] = {
    "run": "up",
    "start": "up",
    "train": "up",
    "launch": "up",
    "stop": "drain",
    "cancel": "drain",
    "unpause": "resume",
    "continue": "resume",
    "ls": "runs",
    "list": "runs",
    "ps": "top",
    "status": "top",
    "watch": "top",
    "check": "doctor",
    "estimate": "plan",
    "preprocess": "prepare",
    "download": "prepare",
    "size": "plan",
    "delete": "rm",
    "remove": "rm",
    "filter": "difficulty",
    "pass-rate": "difficulty",
    "config": "keys",
    "options": "keys",
    "settings": "keys",
    "eval": "evaluate",
    "test": "evaluate",
    "grade": "score",
    "play": "agent",
    "debug": "agent",
}
BROKEN_PIPE = 141  # as in a shell for a program that SIGPIPE ended
SAME = {"list": "ls", "ls": "list"}  # where a verb has one of them, the other means the same


class VerbModule(Protocol):
    """The module of a verb. It may also have `EPILOG`, `SUBVERBS`, their `EXAMPLES`, and `HANDS_ON`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments. `parser.get_default("verb")` and `("subverb")` have the verb's name."""

    def run(self, options: argparse.Namespace) -> int:
        """Do the work and return the exit code.

        Raises:
            UsageError, ConfigError: the arguments or the configuration are invalid; `main` exits with 2.
            PipelineError: it could not be done; `main` exits with 1.
        """
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Find the verb, run it, and turn errors that people can act on into one message."""
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    atexit.register(gc.freeze)  # else the interpreter's last collections take a tenth of a second
    verbs = "\n".join(f"  {name:<14} {verb.about}" for name, verb in VERBS.items())
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
    typed = list(sys.argv[1:] if argv is None else argv)
    if typed and not typed[0].startswith("-") and typed[0] not in VERBS:
        parser.error(_no_such("", typed[0], VERBS))
    args = parser.parse_args(typed)
    if args.version:
        from config.versions import versions

        sys.stdout.write(versions() + "\n")
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    return _run(args.command, args.words)


def _run(verb: str, words: list[str]) -> int:
    """Parse a verb's arguments and run it."""
    module = _module(verb)
    subverbs = _subverbs(module)
    words = _with_our_word(words, subverbs)
    if subverbs and (not words or words[0] not in subverbs):
        return _no_subverb(verb, subverbs, words)
    parser, options = parse(verb, words)

    from config.logs import mask
    from tools.arguments import UsageError

    try:
        code = module.run(options)
        sys.stdout.flush()
    except UsageError as error:
        parser.error(str(error))
    except _reported() as error:
        sys.stderr.write(f"{parser.prog}: {mask(str(error))}\n")
        return 1 if isinstance(error, _reported()[0]) else 2
    except BrokenPipeError:
        if _is_read():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        sys.stderr.write(f"{parser.prog}: {mask(f'{error.filename}: {error.strerror}')}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return code


def _reported() -> tuple[type[Exception], type[Exception]]:
    """Return the errors that people can act on. The second is imported with all sections of a configuration."""
    from broker.errors import PipelineError
    from config.explanations import ConfigError

    return PipelineError, ConfigError


def _is_read() -> bool:
    """Return whether somebody may still read standard output; `| head` closes it once it has read enough."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


def parse(verb: str, words: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse the arguments of a verb, its subverb first where it has some. Raises SystemExit for invalid ones."""
    module = _module(verb)
    words = _with_our_word(words, _subverbs(module))
    subverb = words[0] if _subverbs(module) else ""
    parser = argparse.ArgumentParser(
        prog=f"millrace {verb} {subverb}".rstrip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _fill(parser, verb, subverb, module)
    rest = list(words[1:] if subverb else words)
    parser.set_defaults(words=tuple(rest))
    if getattr(module, "HANDS_ON", False):  # the other arguments are another program's
        return parser, parser.parse_args(rest)
    return parser, parser.parse_intermixed_args(rest)  # options may come between the others


def _module(verb: str) -> VerbModule:
    return cast("VerbModule", import_module(VERBS[verb].module))


def _subverbs(module: VerbModule) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(module, "SUBVERBS", {})
    return found


def _fill(parser: argparse.ArgumentParser, verb: str, subverb: str, module: VerbModule) -> None:
    """Set a verb's description, example and arguments in its parser."""
    about = _subverbs(module).get(subverb, VERBS[verb].about)
    said = textwrap.fill(str(getattr(module, "EPILOG", "")), 100)
    parser.description = f"{about[0].upper()}{about[1:]}."
    example = getattr(module, "EXAMPLES", {}).get(subverb, VERBS[verb].example)
    parser.epilog = f"{said}\n\nexample:\n  {example}".strip()
    parser.set_defaults(verb=verb, subverb=subverb)
    module.add_arguments(parser)


def _no_subverb(verb: str, subverbs: Mapping[str, str], words: Sequence[str]) -> int:
    """List the subverbs of the verb."""
    lines = "\n".join(f"  {name:<6} {text}" for name, text in subverbs.items())
    parser = argparse.ArgumentParser(
        prog=f"millrace {verb}",
        usage=f"millrace {verb} {'|'.join(subverbs)} RUN ...",
        description=f"{VERBS[verb].about[0].upper()}{VERBS[verb].about[1:]}.",
        epilog=f"commands:\n{lines}\n\n`millrace {verb} COMMAND --help` says more.\n\nexample:\n  "
        f"{VERBS[verb].example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subverb", choices=subverbs, metavar="COMMAND", help="one of those below")
    if words and not words[0].startswith("-"):
        parser.error(_no_such(f"{verb} ", words[0], subverbs))
    if words:
        parser.parse_args(words[:1])  # --help ends here
    parser.print_help()
    return 2


def _with_our_word(words: Sequence[str], subverbs: Mapping[str, str]) -> list[str]:
    """Return the arguments with `list` for `ls`, or the reverse, where the verb has the other one."""
    if words and words[0] not in subverbs and SAME.get(words[0]) in subverbs:
        return [SAME[words[0]], *words[1:]]
    return list(words)


def _no_such(before: str, typed: str, known: Mapping[str, object]) -> str:
    """Report an unknown command, with a suggestion."""
    meant = MEANT.get(typed, "") if not before else ""
    near = [meant] if meant else difflib.get_close_matches(typed, known, n=1, cutoff=0.5)
    near = near or [name for name in known if name.startswith(typed)][:1]
    ours = f"did you mean {before}{near[0]}?" if near else f"there are {', '.join(known)}"
    return f"invalid choice: {typed!r}; {ours}" if before else f"no command {typed!r}; {ours}"


def _complete() -> None:
    """Answer the shell's request for completions; only the module of an already typed verb is imported."""
    import argcomplete

    parser = argparse.ArgumentParser(prog="millrace")
    parser.add_argument("--version", action="store_true")
    children = parser.add_subparsers()
    typed = os.environ.get("COMP_LINE", "").split()[1:]
    for verb in VERBS:
        child = children.add_parser(verb, help=VERBS[verb].about)
        if verb not in typed[:1]:
            continue
        module = _module(verb)
        if not _subverbs(module):
            _fill(child, verb, "", module)
            continue
        grandchildren = child.add_subparsers()
        for subverb, about in _subverbs(module).items():
            _fill(grandchildren.add_parser(subverb, help=about), verb, subverb, module)
    argcomplete.autocomplete(parser)


if __name__ == "__main__":
    sys.exit(main())
