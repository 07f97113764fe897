"""`millrace evaluate CONFIG`: sample and score a model's answers to held-out sets as in training, and report rates.

In: a configuration whose `data.held_out` names the sets, or the name of a finished run. Out: a JSON file with every
row's scores, and a table by set and data source. The roles are those of `millrace up` with a collector in the learner's
place (`tools.collect.launch`), so more generators and scorers may join from anywhere. The samples are in the journal of
a separate run: the same command continues it after a crash, and answers at once when it is complete. `--compare A.json
B.json` compares two results and starts nothing. `--follow` evaluates the versions of a run while it trains, each by
generators that keep that version to the end.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.explanations import ConfigError
from config.loading import file_of, from_yaml, load_run, to_yaml
from config.run import Run
from config.run_names import is_run_name
from config.versions import versions
from tools.agent.endpoint import add_endpoint, endpoint_of
from tools.arguments import UsageError, add_json, add_layers, add_runs_dir, check_out, layer_words
from tools.evaluate import comparison, summary
from tools.evaluate.results import EvaluationResult, as_tree, read_result, row_of, unsampled_row, write_result

if TYPE_CHECKING:
    from learner.collect.results import Results

EPILOG: Final = (
    "The same command goes on with an evaluation that was stopped or killed. Rates are means over problems with 95% "
    "intervals; a sample that could not be scored counts nowhere, and is counted. Exit code: 0 done; 1 it could not be "
    "done, or two results can't be compared; 2 a configuration or words that can't be used."
)
FILE: Final = "evaluation.json"  # in the evaluation's folder
PATIENCE_S: Final = 3600.0  # longest wait of --follow for a version
UNDER: Final = "config/recipes/evaluation/alone.yaml"  # a layer below CONFIG, which may contain sets alone
# Sections that determine the result: with another value in one of them it is another evaluation.
DECIDES: Final = ("seed", "model", "data", "sampling", "evaluation")
DECIDES_NOTHING: Final = ("first_round", "groups_in_flight")  # of `evaluation`: when prompts are issued


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace evaluate`."""
    parser.add_argument(
        "config",
        nargs="?",
        metavar="CONFIG",
        help="YAML file with data.held_out, or the name of a finished run",
    )
    parser.add_argument(
        "values", nargs="*", metavar="key=value", help="settings over the file's: evaluation.samples=8"
    )
    add_layers(parser)
    parser.add_argument(
        "--model",
        metavar="M",
        help="hub's name, folder, finished run (model.path); --endpoint: its name there",
    )
    add_endpoint(parser, "answer in the policy's place")
    parser.add_argument(
        "--sets", type=_names, metavar="A,B", help="only these of the named sets of data.held_out (all)"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help=f"where the result goes (the evaluation's {FILE})"
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("A.json", "B.json"),
        help="compare two results problem by problem, and start nothing",
    )
    parser.add_argument(
        "--by",
        choices=list(comparison.MEANS),
        default="right",
        help="what --compare compares: the share of right samples (right), or the mean score",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="CONFIG is a run that trains: evaluate its newest version, again and again, until it has ended",
    )
    parser.add_argument(
        "--every", type=int, metavar="N", help="with --follow: optimizer steps between two versions (1)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="S",
        help="with --follow: seconds without a new version after which it ends with 1 (3600)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the commands; start nothing")
    add_json(
        parser,
        "one JSON object on standard output, with --follow one a version and line; progress goes to standard error",
    )
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Evaluate, or compare. Raises UsageError, ConfigError, PipelineError."""
    if options.compare is not None:
        return _compare(options)
    if options.config is None:
        raise UsageError("CONFIG is missing: the YAML file with data.held_out, or --compare A.json B.json")
    check_out(options.out)
    if options.endpoint is None and options.key_variable is not None:
        raise UsageError("--key-variable goes with --endpoint")
    if options.endpoint is not None:
        return _with_endpoint(options)
    if options.follow:
        return _follow(options)
    if options.every is not None or options.patience is not None:
        raise UsageError("--every and --patience go with --follow")
    return _evaluate(options, options.out)


def _with_endpoint(options: argparse.Namespace) -> int:
    """Evaluate a model behind an address."""
    if options.follow or options.dry_run:
        raise UsageError("--endpoint goes without --follow and --dry-run: it starts no role")
    url, key = endpoint_of(options)
    words = words_of(options)
    name = name_of(load_run(words), f"{url} {options.model or ''}")
    run = load_run([*words, f"name={name}"])
    from tools.evaluate.outside import evaluated

    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        found = evaluated(run, url, model=options.model, key=key)
    _tell(found, options.out or run.folder / FILE, as_json=options.json)
    return 0


def _follow(options: argparse.Namespace) -> int:
    """Evaluate the newest version of a run, one evaluation after the other."""
    if options.model is not None or options.out is not None or options.dry_run:
        raise UsageError(
            "--follow goes without --model, --out and --dry-run: it evaluates the run's own versions, and a result is "
            "a file in the run's folder `evaluations`"
        )
    every = 1 if options.every is None else options.every
    if every < 1:
        raise UsageError(f"--every {every}: steps between two versions are at least 1")
    folder = options.runs_dir / options.config
    if not is_run_name(options.config) or not (folder / "config.yaml").is_file():
        raise UsageError(
            f"--follow wants a run: there is no {folder / 'config.yaml'}; --runs-dir says where runs are"
        )
    from tools.evaluate.follow import versions

    followed = from_yaml((folder / "config.yaml").read_bytes(), str(folder / "config.yaml"))
    followed = followed.model_copy(update={"runs_dir": folder.parent, "name": folder.name})
    patience_s = PATIENCE_S if options.patience is None else options.patience
    for each in versions(followed, every=every, patience_s=patience_s):
        stream = sys.stderr if options.json else sys.stdout
        stream.write(f"\nversion {each.version} of {followed.name}\n")
        its_own = {**vars(options), "config": str(folder / "config.yaml"), "model": str(each.model)}
        _evaluate(argparse.Namespace(**its_own), each.result)
    return 0


def _evaluate(options: argparse.Namespace, out: Path | None) -> int:
    """Evaluate one model, and write the result to `out`, or to the evaluation's folder."""
    words = words_of(options)
    wanted = load_run(words)
    checksum = _weights_checksum(wanted)
    words = [*words, f"name={name_of(wanted, checksum)}"]
    evaluated = load_run(words)
    from tools.collect.launch import collected, plan_of

    if options.dry_run:
        sys.stdout.write("".join(f"{command}\n" for command in plan_of(evaluated, words, "held_out")))
        return 0
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        found = collected(evaluated, words, "held_out")
    _tell(result_of(evaluated, found, checksum), out or evaluated.folder / FILE, as_json=options.json)
    return 0


def words_of(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the configuration, with the options' model and sets.

    Raises:
        ConfigError: no such run, no such set, no set at all, or a run without a model.
    """
    config, model = options.config, options.model
    if is_run_name(config) and not file_of(config).exists():
        folder = options.runs_dir / config
        if not (folder / "config.yaml").is_file():
            raise ConfigError(
                f"{config} is neither a file nor a run: there is no {folder / 'config.yaml'}; --runs-dir says where "
                "runs are"
            )
        model, config = model or config, str(folder / "config.yaml")
    words = ["--config", UNDER, "--config", config, *layer_words(options), *options.values]
    if model is not None and options.endpoint is None:
        words.append(f"model.path={json.dumps(model_path(model, options.runs_dir))}")
    held_out = load_run(words).data.held_out
    if held_out is None:
        raise ConfigError(
            f"{config}: data.held_out names no set to evaluate on; give some by --layer, such as "
            "config/recipes/evaluation/reasoning360.yaml"
        )
    return words if options.sets is None else [*words, _chosen(held_out, options.sets)]


def model_path(text: str, runs_dir: Path) -> str:
    """Return `model.path` for a model's name: a folder, a run, or a name on the hub.

    Raises:
        ConfigError: the folder or the run has no model.
    """
    folder = Path(text) if Path(text).is_dir() else runs_dir / text
    if not folder.is_dir():
        return text  # a name on the hub, or nothing, which the tokenizer's loading reports
    for place in (folder, folder / "model"):
        if (place / "config.json").is_file():
            return str(place)
    raise ConfigError(
        f"--model {text}: neither {folder} nor a folder `model` in it has a config.json. A run has its model when it "
        "is finished; before, `millrace export RUN -o FOLDER` writes one of its versions"
    )


def name_of(run: Run, checksum: str) -> str:
    """Return the name of an evaluation's run: the configuration's, and a digest of everything that determines it."""
    tree = run.model_dump(mode="json", include={*DECIDES}, exclude={"evaluation": {*DECIDES_NOTHING}})
    if run.has_agents:
        tree["agents"] = run.agents.model_dump(mode="json", include={"on_repeated_crash"})
    tree |= {"weights": checksum, "tasks": run.scorers.model_dump(mode="json", include={"tasks", "credit"})}
    text = json.dumps(tree, sort_keys=True)
    return f"{run.name}-evaluation-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def result_of(run: Run, found: Results, checksum: str) -> EvaluationResult:
    """Return the result of a complete collected run. Raises JournalError."""
    rows = [
        unsampled_row(each.set, each.died or "nothing was sampled")
        if each.group is None
        else row_of(each.set, each.group)
        for each in found.rows()
    ]
    return EvaluationResult(
        model={"path": run.model.path, "revision": run.model.revision, "weights": checksum},
        sets=[
            {"name": each.name, "rows": each.rows, "fingerprint": each.fingerprint, **each.sampling}
            for each in found.sets
        ],
        rows=rows,
        config=to_yaml(run),
        packages=versions().splitlines(),
    )


def _weights_checksum(run: Run) -> str:
    """Return the checksum of the model's weights, downloading those on the hub."""
    from broker.checksums import weights_checksum
    from broker.weight_files import weight_files
    from learner.collect.model_weights import find_weights

    return weights_checksum(weight_files(find_weights(run.model).folder))


def _chosen(held_out: Any, names: list[str]) -> str:
    """Return the override that selects the sets of these names. Raises ConfigError."""
    named = {each.name: each for each in held_out} if isinstance(held_out, tuple) else {}
    unknown = [name for name in names if name not in named]
    if unknown:
        there = ", ".join(named) or "none: data.held_out is one source, without a name"
        raise ConfigError(f"--sets {','.join(unknown)}: the named sets of data.held_out are {there}")
    chosen = [named[name].model_dump(mode="json", exclude_none=True) for name in dict.fromkeys(names)]
    return f"data.held_out={json.dumps(chosen)}"


def _tell(result: EvaluationResult, out: Path, *, as_json: bool) -> None:
    found = summary.summaries(result)
    tree = {**as_tree(result), "summary": summary.as_tree(found)}
    write_result(out, tree)
    if as_json:
        sys.stdout.write(json.dumps(tree) + "\n")
        return
    sys.stdout.write(
        "\n".join(["", *summary.lines(found), *summary.reasons(result), "", f"result  {out}"]) + "\n"
    )


def _compare(options: argparse.Namespace) -> int:
    if options.config is not None or options.values:
        raise UsageError("--compare takes two results and no configuration")
    first, second = options.compare
    found = comparison.compare(
        read_result(first), read_result(second), names=(str(first), str(second)), by=options.by
    )
    if options.json:
        sys.stdout.write(json.dumps(found.as_json()) + "\n")
    else:
        sys.stdout.write("\n".join(comparison.lines(found)) + "\n")
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
