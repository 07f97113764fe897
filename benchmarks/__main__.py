"""`python -m benchmarks [NAME ...]`, or `make bench`: every part side by side with a peer or its limit.

In: names of benchmarks, all without any. Out: a table each, under a heading with commit, machine and date; `--write`
puts it at the end of benchmarks/RESULTS.md. Run by people who change a part, on a quiet machine. Exit code 1 where a
benchmark fails. Both sides are checked to do the same work, and a fast wrong result is a failure.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from benchmarks import results
from benchmarks.comparison import Comparison, as_table

# In this order whatever is asked for: the scorers fork before torch is imported.
TITLES = {
    "hand_over": "The atomic hand-over, from `prompts` to `rollouts`",
    "codec": "The payload of a scored group",
    "journal": "The journal: size, one step, and a long one",
    "scorers": "Math answers through the scoring child",
    "pool": "The pool of scorers",
    "judge": "Answers judged by a served model",
    "server": "The reward server",
    "sandbox": "A Python program in the sandbox",
    "hanging": "The price of an answer that hangs",
    "beside_hanging": "Honest programs beside hanging ones",
    "ingest": "Rows read and tokenized, and read again",
    "weight_delta": "Deltas of weights, and their way to a generator",
    "hf_engine": "The demo's engine",
    "logprob_memory": "The memory of a large vocabulary",
    "learner_step": "One optimizer step",
    "learner_step_large": "One optimizer step of a model of 50 million parameters",
    "publishing": "Weights that are published behind the next step",
    "vllm_worker": "A generator on vLLM beside vLLM alone",
    "vllm_updates": "vLLM under new weights",
    "vllm_updates_kept": "vLLM under new weights, behind the cache of older ones",
    "vllm_head": "The type of the head: vLLM beside the learner",
    "episodes": "Episodes beside single turns",
    "calls": "A call of a thousand episodes at once",
    "prefix_hits": "Prefixes of episodes that vLLM finds in its cache",
    "failing_environments": "Groups beside environments that fail",
    "gateway": "A call of an agent that owns its loop",
    "gateway_beside_vllm": "Agents' calls of the policy beside vLLM's own server",
}
PLAYING = {"episodes", "calls", "prefix_hits", "failing_environments", "gateway", "gateway_beside_vllm"}
LONG = {
    "ingest",
    "weight_delta",
    "hanging",
    "beside_hanging",
    "learner_step_large",
    "logprob_memory",
    "publishing",
    "vllm_worker",
    "vllm_updates",
    "vllm_updates_kept",
    "vllm_head",
    "episodes",
    "calls",
    "prefix_hits",
    "failing_environments",
    "gateway",
    "gateway_beside_vllm",
}  # minutes: only where it is asked for by name


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that the arguments name, show their tables, and write them down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Each part beside a peer or its limit."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(TITLES)}; none: all but {', '.join(LONG)}"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"append to {results.RESULTS.relative_to(results.ROOT)}"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes, to see whether it runs; the numbers mean nothing"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="rounds of each side, for one benchmark: more of them, less noise",
    )
    args = parser.parse_args(argv)
    if unknown := [name for name in args.names if name not in TITLES]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(TITLES)}")
    if args.write and args.smoke:
        parser.error("--smoke has no numbers worth writing down")
    if args.rounds is not None and (args.rounds < 1 or len(args.names) != 1):
        parser.error("--rounds wants a number of at least 1, and the name of one benchmark")
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported: one thread for both sides
    commit = results.commit()
    block = results.heading("Benchmarks")
    sys.stdout.write("\n".join(block) + "\n")
    names = args.names or [name for name in TITLES if name not in LONG]
    for name in [name for name in TITLES if name in names]:
        table = as_table(_measure(name, is_smoke=args.smoke, rounds=args.rounds))
        lines = [f"### {TITLES[name]} (`{name}`)", "", *table, ""]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        block += lines
    remarks = results.remarks(commit)
    sys.stdout.write("\n".join(remarks[1:]) + "\n" if remarks else "")
    if args.write:
        results.append([*block[:-1], *remarks])
    return 0


def _measure(name: str, *, is_smoke: bool, rounds: int | None) -> list[Comparison]:
    folder = "measures.playing" if name in PLAYING else "measures"
    module = import_module(f"benchmarks.{folder}.{name}")  # its libraries are heavy: not before its turn
    size = module.SMOKE if is_smoke else module.FULL
    if rounds is not None:
        if not hasattr(size, "rounds"):
            raise SystemExit(f"--rounds: {name} has no number of rounds to choose")
        size = replace(size, rounds=rounds)
    found: list[Comparison] = module.measure(size)
    return found


if __name__ == "__main__":
    sys.exit(main())
