"""A learner's life for the steps of `make prove-gpu`: `python -m benchmarks.proofs.gpu.life PLAN.json`, as one rank.

In: a plan, `{"run": YAML, "do": [[method, argument, ...], ...]}`. Out: what rank 0's methods return, in
`PLAN.results.json`; the other ranks follow. A rank that fails leaves its reason in `PLAN.reason`. Run in as many
processes as the plan's run has ranks, by `learner.launch.ranks`; one rank may be a fork of the step's process. Every
step has other groups, the same in every life.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from benchmarks.proofs.gpu.made_up import TINY, batch_of, random_groups
from benchmarks.proofs.gpu.outcomes import Missed
from broker.processes import die_with_parent
from config.loading import from_yaml
from learner.launch.ranks import Ranks, launch_or_join
from learner.training.engines.deepspeed import DeepSpeedBackend
from learner.training.process_group import device_of

LENGTHS = (
    (23, 4, 11, 17),
    (2, 9, 19, 7),
    (13, 21, 5, 3),
)  # tokens of the completions of a step's three groups


def main() -> None:
    """Live the plan that the argument names."""
    logging.basicConfig(level=logging.INFO)
    told(Path(sys.argv[1]))


def told(file: Path) -> None:
    """Live a plan, and leave the reason where that fails."""
    try:
        live(file)
    except Exception as error:
        file.with_suffix(".reason").write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        raise


def live_alone(file: Path, parent: int) -> None:
    """Live a plan as its only rank, in a fork of a process that has imported this module and lived nothing."""
    die_with_parent(parent)
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    torch.set_num_threads(1)
    told(file)


def live(file: Path) -> None:
    """Live the plan in a file as one of its ranks."""
    plan = json.loads(file.read_text(encoding="utf-8"))
    run = from_yaml(plan["run"], str(file))
    ranks = launch_or_join(run, [])
    if not isinstance(ranks, Ranks):
        raise TypeError("a life is started as a rank, by learner.launch.ranks")
    policy = DeepSpeedBackend(run, rank=ranks.rank, world_size=ranks.world_size)
    check_collectives(device_of(run), ranks)
    if ranks.rank:
        policy.follow()
        return
    try:
        results = [act(policy, *line) for line in plan["do"]]
        file.with_suffix(".results.json").write_text(json.dumps(results), encoding="utf-8")
    finally:
        policy.close()


def act(policy: DeepSpeedBackend, method: str, *arguments: Any) -> Any:
    """Do one line of a plan."""
    match method:
        case "step":
            (version,) = arguments
            groups = random_groups(TINY, LENGTHS, seed=version)
            return policy.step(batch_of(policy.run, groups, version=version))
        case "save_weights":
            folder = Path(arguments[0])
            folder.mkdir()
            policy.gather_weights().save_weights(folder)
        case "save_checkpoint":
            policy.save_checkpoint(Path(arguments[0]), {"version": arguments[1]})
        case "load_checkpoint":
            return policy.load_checkpoint(Path(arguments[0]))
        case _:
            raise ValueError(f"a life has no {method}")
    return None


def check_collectives(device: torch.device, ranks: Ranks) -> None:
    """Run the collectives that ZeRO lives on, and check their sums. Raises Missed where one is wrong."""
    world, own = ranks.world_size, float(ranks.rank + 1)
    total = world * (world + 1) / 2  # of 1 to `world`
    mine = torch.full((world,), own, device=device)
    reduced = mine.clone()
    distributed.all_reduce(reduced)
    gathered = torch.empty(world, device=device)
    distributed.all_gather_into_tensor(gathered, mine[:1].clone())
    scattered = torch.empty(1, device=device)
    distributed.reduce_scatter_tensor(scattered, mine.clone())
    told = mine[:1].clone()
    distributed.broadcast(told, src=world - 1)
    found = {
        "all_reduce": reduced.tolist() == [total] * world,
        "all_gather": gathered.tolist() == [float(rank + 1) for rank in range(world)],
        "reduce_scatter": scattered.item() == total,
        "broadcast": told.item() == float(world),
    }
    if wrong := [name for name, is_right in found.items() if not is_right]:
        raise Missed(f"{distributed.get_backend()} computes {', '.join(wrong)} wrong over {world} ranks")


if __name__ == "__main__":
    main()
