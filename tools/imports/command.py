"""`millrace import FILE... [key=value ...] -o run.yaml`: convert a run of verl to a run here.

In: a YAML file, a script with the call, an `.env`, or the arguments of the call itself. Out: the run's YAML, and a list
of every key with its translation. Unknown keys, refused values and a run that could not start are errors with file and
line, all at once, and nothing is written. Nothing that is read is executed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from config.explanations import ConfigError
from config.other_names.aliases import settings_of
from tools.arguments import UsageError, add_json
from tools.imports.reading import OfVerl, read, variables
from tools.imports.rows_at_hand import found_tasks
from tools.imports.run_file import as_json, as_yaml, checked, leaves, report, write
from tools.imports.script import VERLS_OWN
from tools.imports.theirs import Theirs
from tools.imports.translation import Setting, Translation, rules_in_words, translate
from tools.imports.variables import accounts_of_variables

EPILOG = (
    "FILE is YAML, a shell script that calls verl (its own arguments may follow), or an .env; the words of a call may "
    "stand as they are typed for verl. --keys lists every key and what becomes of it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments; those of verl's own call are accepted as typed."""
    parser.add_argument(
        "words", nargs="*", metavar="FILE | key=value", help="files, then keys over them, as Hydra takes them"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="where the run is written (standard output)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument(
        "--keys",
        nargs="*",
        metavar="TEXT",
        help="list verl's keys and what becomes of each: all, or those that have TEXT in them or decide on it",
    )
    add_json(parser, "the list of keys as one JSON object on standard output; needs -o")
    parser.add_argument(
        "--config_path", "--config-path", metavar="FILE", help="the file, as II-VERL's call has it"
    )
    parser.add_argument(
        "--config-name", "--config_name", metavar="NAME", help="the file, as Hydra's call has it"
    )
    parser.add_argument(
        "--backend", metavar="NAME", help="as II-VERL's call has it; the learner is DeepSpeed's"
    )
    parser.add_argument(
        "--verl",
        type=Path,
        metavar="FOLDER",
        help="a checkout or an installed verl: Hydra composes its own base with these words",
    )
    parser.add_argument(
        "--verl-python",
        metavar="PYTHON",
        help="a Python with hydra-core, for --verl (an environment that is made in the cache folder)",
    )
    parser.add_argument("-m", dest="module", metavar="MODULE", help="as the call has it")


def run(options: argparse.Namespace) -> int:
    """Read, translate, check, then write."""
    if options.keys is not None:
        sys.stdout.write("\n".join(rules_in_words(options.keys)) + "\n")
        return 0
    if options.json and options.out is None:
        raise UsageError("--json needs -o FILE: the run would stand on standard output too")
    if options.out is not None and options.out.exists() and not options.force:
        raise UsageError(f"{options.out} is there: --force writes over it")
    verl = None if options.verl is None else OfVerl(folder=options.verl, python=options.verl_python)
    theirs = read(options.words, config=_config(options), options=_typed(options), verl=verl)
    translation = with_variables(translate(theirs, found_tasks(theirs)), theirs)
    checked(translation)
    text = as_yaml(translation, _sources(theirs))
    listed = report(translation)
    if options.out is None:
        sys.stdout.write(text)
        sys.stderr.write("\n".join(listed) + "\n")
        return 0
    try:
        write(options.out, text)
    except OSError as error:
        raise ConfigError(f"{options.out} can't be written: {error.strerror}") from None
    if options.json:
        sys.stdout.write(json.dumps(as_json(translation), default=str) + "\n")
    else:
        sys.stdout.write(
            "\n".join([*listed, f"wrote {options.out}: `millrace doctor {options.out}` looks at it"]) + "\n"
        )
    return 0


def _typed(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the typed options of verl's call, with their values."""
    found = {
        "--config_path": options.config_path,
        "--config-name": options.config_name,
        "--backend": options.backend,
        "-m": options.module,
    }
    return [(name, value) for name, value in found.items() if value is not None]


def _config(options: argparse.Namespace) -> str | None:
    """Return the file named by the options of a call."""
    folder, name = options.config_path, options.config_name
    if name is None:
        return folder if folder is None else str(folder)
    named = name if name.endswith(".yaml") else f"{name}.yaml"
    path = Path(folder) / named if folder else Path(named)
    if not path.is_file() and VERLS_OWN.fullmatch(named):
        return None  # verl's own, whose defaults are known here
    if not path.is_file():
        raise ConfigError(f"{path} is not there")
    return str(path)


def with_variables(translation: Translation, theirs: Theirs) -> Translation:
    """Add the settings of variables in an `.env` or a script: sandbox, judges, and the format's share."""
    found = settings_of(variables(theirs), leaves(translation))
    more = [Setting(path=".".join(leaf.path), value=leaf.value, why=leaf.where) for leaf in found]
    return replace(
        translation, settings=(*translation.settings, *more), variables=accounts_of_variables(theirs, found)
    )


def _sources(theirs: Theirs) -> list[str]:
    return list(dict.fromkeys(one.where.rpartition(":")[0] or one.where for one in theirs.said.values()))
