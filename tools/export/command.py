"""`millrace export RUN -o DIR`: write a version of a run's weights as a folder for transformers and vLLM.

In: a run's folder: published versions, checkpoints, journal; no Redis. Out: safetensors (several files if large),
config, generation config, tokenizer and chat template. A version with existing files is copied. Any other is made from
the newest checkpoint before it, by replaying the journal's steps. Nothing in the run's folder is changed. `python -m
tools.main export` is one of the ranks, where the run had several.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.private_redis import server
from broker.weight_files import weight_files
from config.loading import from_yaml
from config.run import Run
from learner.journal.ledger import Ledger, read_ledger
from learner.journal.records import step_number
from learner.training.checkpoint import Checkpoints, version_of
from learner.weight_sync.version_folder import folder_of, published
from tools.arguments import UsageError, add_run, add_runs_dir
from tools.replay.command import Replay, print_death, run_of
from tools.runs.folder import NoJournal

if TYPE_CHECKING:
    from learner.launch.ranks import RanksEnded

MODULE = "tools.main"  # what each rank runs; the first argument is `export`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace export`."""
    add_run(parser)
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="folder to write; new or empty"
    )
    parser.add_argument(
        "--version", type=int, metavar="N", help="policy version: optimizer steps done (the newest)"
    )
    add_runs_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Write a version's folder. 0: done; 1: the version can't be made."""
    folder, out = server.folder_of(options.run, options.runs_dir), options.out
    if not (folder / "journal").is_dir():
        raise NoJournal(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: exists and is not an empty folder")
    ledger = read_ledger(folder / "journal")
    newest = step_number(ledger.steps[-1]) if ledger.steps else 0
    version = newest if options.version is None else options.version
    if not 0 <= version <= newest:
        raise UsageError(f"--version {version}: the run has versions 0 to {newest}")
    exported = from_yaml((folder / "config.yaml").read_bytes(), str(folder / "config.yaml"))
    exported = exported.model_copy(update={"runs_dir": folder.parent, "name": folder.name})
    if files := _published_files(exported, version):
        _copy(files, exported, out)
    else:
        code, is_first = _make(exported, ledger, version, options)
        if code or not is_first:
            return code
    sys.stdout.write(f"version {version} of {options.run}: {out}\n")
    return 0


def _published_files(exported: Run, version: int) -> tuple[Path, ...]:
    """Return the files of a published version; () if there are none that make the model."""
    if exported.learner.lora is not None:  # they lack the model, or the adapter by itself
        return ()
    try:
        return weight_files(folder_of(published(exported), version))
    except FileNotFoundError:
        return ()


def copy_published(exported: Run, version: int, out: Path) -> None:
    """Write the folder from a published version. Raises FileNotFoundError."""
    _copy(weight_files(folder_of(published(exported), version)), exported, out)


def _copy(files: Sequence[Path], exported: Run, out: Path) -> None:
    """Write the folder from a published version's files."""
    from safetensors.torch import load_file

    from learner.training.model_files import write_model

    tensors = {name: tensor for file in files for name, tensor in load_file(file).items()}
    write_model(tensors, out, source=exported.model, shard_bytes=exported.learner.shard_bytes)


def _make(exported: Run, ledger: Ledger, version: int, options: argparse.Namespace) -> tuple[int, bool]:
    """Write the folder from a checkpoint, and the journal's steps after it.

    Returns:
        The exit code, and whether this process wrote the folder.
    """
    from learner.launch.ranks import launch_or_join

    folder = Checkpoints(exported).newest_good(at_most=version, ledger=ledger)
    begins = 0 if folder is None else version_of(folder)
    if ledger.steps:
        exported = run_of(exported.folder, ledger, min(begins + 1, step_number(ledger.steps[-1])), None)
    ranks = launch_or_join(exported, ["export", *options.words], module=MODULE, report=_print_death)
    if isinstance(ranks, int):
        return ranks, False
    from learner.training.engines.deepspeed import DeepSpeedBackend

    policy = DeepSpeedBackend(exported, rank=ranks.rank, world_size=ranks.world_size)
    if ranks.rank > 0:
        policy.follow()
        return 0, False
    try:
        with tempfile.TemporaryDirectory(prefix="millrace-export-") as scratch:
            Replay(exported, policy, ledger, Path(scratch)).seek(version)
        policy.save_model(options.out.absolute())
    finally:
        policy.close()
    return 0, True


def _print_death(ended: RanksEnded) -> None:
    print_death("export", ended)
