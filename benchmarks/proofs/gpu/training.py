"""The steps of `make prove-gpu` about training: ZeRO's stages, AdamW's forms and ranks, against the plainest of all.

In: a stage, a type, what is kept in the host's memory, ranks. Out: how near gradients and weights are to those of the
same steps in float32 on the CPU with ZeRO 0, and whether a fresh process that goes on from a checkpoint has the weights
of the process that went on without. The learner's own backend does all of it, on a tiny model with random weights.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any, Literal

from benchmarks.proofs.gpu.made_up import TINY, write_model
from benchmarks.proofs.gpu.outcomes import Device, Missed, Skipped, StepFigures, StepPlace
from benchmarks.rigs.groups import demo_run
from broker.weight_files import FILE
from config.loading import to_yaml
from config.run import Run
from learner.launch.ranks import launch

STEPS = 2  # before the checkpoint; one more behind it
LIFE = "benchmarks.proofs.gpu.life"
# A large epsilon keeps AdamW from making a full step of what is rounding alone.
OPTIMIZER = {"lr": 1e-2, "eps": 1e-2, "warmup_steps": 2, "grad_clip": 0.5, "weight_decay": 0.1}
# How near is near: of the gradient's norm, relative; of any weight, which are about 0.1. On a CPU bfloat16 leaves 0.002
# and 0.004. Weights that do not move at all are off by MOVED and more.
NORM = {"float32": 1e-3, "bfloat16": 0.05}
WEIGHT = {"float32": 1e-4, "bfloat16": 6e-3}
MOVED = 1e-2
# Behind a checkpoint: to the bit on a CPU. On a GPU attention adds up in no fixed order, and a weight of bfloat16 may
# be rounded to its neighbour.
AGAIN = {"cpu": {"float32": 0.0, "bfloat16": 0.0}, "cuda": {"float32": 1e-5, "bfloat16": 4e-3}}


def follows_the_reference(
    place: StepPlace,
    *,
    stage: Literal[0, 1, 2, 3],
    dtype: Literal["float32", "bfloat16"] = "bfloat16",
    ranks: int = 1,
    offload_optimizer: bool = False,
    offload_weights: bool = False,
) -> StepFigures:
    """Train a few steps, compare them with the reference's, then go on from the checkpoint in a fresh process.

    Raises:
        Missed: a rank failed, or a number is not near enough.
        Skipped: there are not enough cards.
    """
    _refuse_missing_cards(ranks, place.device)
    if place.is_fork:  # threads that this process had started would be missing in its forks
        import torch

        torch.set_num_threads(1)
    zero = {"stage": stage, "offload_optimizer": offload_optimizer, "offload_weights": offload_weights}
    run = _run(place, dtype=dtype, device=place.device, zero=zero, ranks=ranks)
    reference = _reference(place)
    checkpoint, first, second, again = (
        str(place.folder / name) for name in ("checkpoint", "first", "second", "again")
    )
    begun = live(
        place.folder / "begun.json",
        run,
        [
            *(["step", version] for version in range(STEPS)),
            ["save_weights", first],
            ["save_checkpoint", checkpoint, STEPS],
            ["step", STEPS],
            ["save_weights", second],
        ],
        is_fork=place.is_fork,
    )
    live(
        place.folder / "again.json",
        run,
        [["load_checkpoint", checkpoint], ["step", STEPS], ["save_weights", again]],
        is_fork=place.is_fork,
    )
    norms = [begun[version]["grad_norm"] for version in range(STEPS)]
    apart = max(abs(norm - wanted) / wanted for norm, wanted in zip(norms, reference["norms"], strict=True))
    off, moved = distance(first, reference["weights"]), distance(first, reference["start"])
    resumed = distance(second, again)
    _require(f"gradients {apart:.1%} apart", apart <= NORM[dtype], f"at most {NORM[dtype]:.1%}")
    _require(f"weights {off:.1e} apart", off <= WEIGHT[dtype], f"at most {WEIGHT[dtype]:.0e}")
    _require(f"weights moved by {moved:.1e}", moved >= MOVED, f"at least {MOVED:.0e}")
    most = AGAIN[place.device][dtype]
    _require(f"weights {resumed:.1e} apart after a resume", resumed <= most, f"at most {most:.0e}")
    where = f"{ranks} {'NCCL' if place.device == 'cuda' else 'gloo'} rank{'s' * (ranks > 1)}"
    went_on = f"{resumed:.1e} apart" if resumed else "bit for bit"
    return StepFigures(
        text=f"{where}: gradients at most {apart:.2%} and weights {off:.1e} from float32 on the CPU, moved by "
        f"{moved:.1e}; a fresh process goes on from the checkpoint {went_on}",
        facts={"apart": apart, "weights": off, "moved": moved, "resumed": resumed, "ranks": ranks},
    )


def live(file: Path, run: Run, lines: list[list[Any]], *, is_fork: bool) -> list[Any]:
    """Live a plan in processes that have lived nothing yet, and return what its methods returned.

    Args:
        file: for the plan.
        run: the learner's.
        lines: methods with their arguments.
        is_fork: this process may be forked, with its libraries; several ranks are fresh interpreters all the same.
    Raises:
        Missed: a rank failed.
    """
    file.write_text(json.dumps({"run": to_yaml(run), "do": lines}), encoding="utf-8")
    if is_fork and run.learner.ranks == 1:
        from benchmarks.proofs.gpu.life import live_alone

        life = multiprocessing.get_context("fork").Process(target=live_alone, args=(file, os.getpid()))
        life.start()
        life.join()  # the step has a deadline
        code = life.exitcode or 0
    else:
        os.environ["OMP_NUM_THREADS"] = "1"  # read by the ranks when they import torch
        code = launch([sys.executable, "-m", LIFE, str(file)], run.learner.ranks)
    if code:
        reason = file.with_suffix(".reason")
        said = reason.read_text(encoding="utf-8") if reason.exists() else "it left no reason"
        raise Missed(f"a learner ended with code {code}: {said}")
    results: list[Any] = json.loads(file.with_suffix(".results.json").read_text(encoding="utf-8"))
    return results


def distance(one: str, other: str) -> float:
    """Return the largest difference between the weights in two folders."""
    from safetensors.torch import load_file

    ours, theirs = (load_file(Path(folder) / FILE) for folder in (one, other))
    if ours.keys() != theirs.keys():
        raise Missed(f"{one} and {other} have tensors of other names")
    return max((ours[name].float() - theirs[name].float()).abs().max().item() for name in ours)


def _reference(place: StepPlace) -> dict[str, Any]:
    """Return the same steps in float32 on the CPU with ZeRO 0, made once for all steps of the proof."""
    folder = place.shared / "reference"
    done = folder / "reference.json"
    if not done.exists():
        folder.mkdir(exist_ok=True)
        run = _run(place, dtype="float32", device="cpu", zero={"stage": 0}, ranks=1)
        weights, start = str(folder / "weights"), str(folder / "start")
        lines: list[list[Any]] = [["save_weights", start], *(["step", version] for version in range(STEPS))]
        # DeepSpeed has been imported for one device, and stays with it.
        is_fork = place.is_fork and place.device == "cpu"
        results = live(folder / "plan.json", run, [*lines, ["save_weights", weights]], is_fork=is_fork)
        norms = [results[1 + version]["grad_norm"] for version in range(STEPS)]
        text = json.dumps({"norms": norms, "weights": weights, "start": start})
        done.write_text(text, encoding="utf-8")
    found: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
    return found


def _run(place: StepPlace, *, dtype: str, device: Device, zero: dict[str, Any], ranks: int) -> Run:
    model = place.shared / "reference" / "model"
    if not (model / "config.json").exists():
        write_model(model, TINY, dtype="float32")
    return demo_run(
        place.folder,
        model={"path": str(model), "dtype": dtype},
        learner={
            "device": device,
            "ranks": ranks,
            "zero": zero,
            "optimizer": OPTIMIZER,
            "tokens_per_micro_batch": 160,
        },
    )


def _refuse_missing_cards(ranks: int, device: Device) -> None:
    """Raise Skipped where NCCL has no card for each rank."""
    if ranks == 1 or device == "cpu":
        return
    import torch

    if (cards := torch.cuda.device_count()) < ranks:
        raise Skipped(
            f"NCCL between ranks needs {ranks} cards, here is {cards}; one rank runs in the other steps"
        )


def _require(measured: str, holds: bool, bar: str) -> None:
    if not holds:
        raise Missed(f"{measured}, {bar}")
