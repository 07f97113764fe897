"""`make prove-rubric`: a rubric model is trained, exported, served by vLLM, and a policy is trained with it.

In: the small world of `benchmarks.rigs.rubric_world`. Out: a model that is warm-started in it; `millrace up` on `grade`
rows; then, for each mode, `millrace up` of a policy whose `judge.serve` names the model that the first run exported;
and a table of held-out figures before and after, by a checker that no reward has seen. `--write` puts it at the end of
benchmarks/RESULTS.md. Exit code 0 if every run and its audit ended well, the rubric model's held-out score rose, and
the mode that pays for grades alone left a smaller share of right answers without a derivation than the reward for
results. What has run is not run again: each part leaves its folder in `--out`, and a run that was interrupted goes
on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import yaml

from benchmarks import results
from benchmarks.rigs import rubric_world
from benchmarks.rigs.rubric_world import Sum
from learner.reporting.metrics_file import read_metrics
from tools.evaluate.derivations import Derivations, Sample, derivations

SAMPLES: Final = 8  # of a held-out problem: the k of pass@k
RUN_S: Final = 900.0  # that one run may take
FIRST = LAST = 2  # steps whose mean reward counts as the first, and as the last
RUBRIC = "rubric-model"
# Mode -> the scorer's settings. `outcome` pays for the result alone: the grade has no weight.
MODES: Mapping[str, Mapping[str, Any]] = {
    "outcome": {"mode": "addon", "weight": 0.0},
    "tinyv_only": {"mode": "tinyv_only"},
    "addon": {"mode": "addon", "weight": 1.0},
    "mixed": {"mode": "mixed", "weight": 0.5},
    "gate": {"mode": "gate"},
}
QUESTION = re.compile(r"What is (\d)\+(\d)\+(\d)\?")
BOX = re.compile(r"\\boxed\{(\d+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricResult:
    """What one run came to."""

    name: str
    exit_code: int  # of the run, or of its audit
    reward: tuple[float, float]  # mean of the first and of the last steps; of the rubric model, held out
    before: Derivations | None = None  # held out, at version 0
    after: Derivations | None = None  # held out, in the end


def main(argv: Sequence[str] | None = None) -> int:
    """Run what has not run yet, show the table, and write it down if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proofs.rubric", description="The rubric pipeline, end to end."
    )
    parser.add_argument("--modes", default=",".join(MODES), metavar="LIST", help="(all)")
    parser.add_argument("--grade-steps", type=int, default=24, metavar="N", help="of the rubric model (24)")
    parser.add_argument("--steps", type=int, default=24, metavar="N", help="of each policy (24)")
    parser.add_argument("--out", type=Path, default=Path("runs/rubric"), metavar="DIR", help="of the runs")
    results.add_write(parser)
    args = parser.parse_args(argv)
    out: Path = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    commit, heading = results.commit(), results.heading("A rubric model, trained, served and trained with")
    if not (out / "base" / "model.safetensors").exists():
        rubric_world.write_rows(out)
        rubric_world.make_model(out / "base")
    model = run(RUBRIC, rubric_model_run(out, args.grade_steps), out)
    policies = [
        run(mode, policy_run(out, mode, args.steps), out)
        for mode in args.modes.split(",")
        if not model.exit_code
    ]
    lines = [*heading, *as_table(model, policies), *results.remarks(commit)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    if args.write:
        results.append(lines)
    return 0 if holds(model, policies) else 1


def common(out: Path, name: str, kind: str, *, steps: int, max_tokens: int) -> dict[str, Any]:
    """Return what both kinds of runs have: the model, the rows, and a learner for two processors."""
    return {
        "name": name,
        "runs_dir": str(out),
        "model": {"path": str(out / "base"), "dtype": "float32"},
        "data": {
            "train": {"type": "dataset", "path": str(out / f"{kind}_train.jsonl"), "prompt_column": "prompt"},
            "held_out": {
                "type": "dataset",
                "path": str(out / f"{kind}_test.jsonl"),
                "prompt_column": "prompt",
            },
            "max_prompt_tokens": rubric_world.LONGEST - max_tokens,
        },
        "sampling": {"group_size": 8, "max_tokens": max_tokens},
        "evaluation": {"every": steps, "prompts": rubric_world.HELD_OUT, "samples": SAMPLES},
        "generators": {"engine": {"type": "hf", "batch_groups": 8, "threads": 1}},
        "scorers": {"workers": 1, "tasks": {}},
        "learner": {
            "steps": steps,
            "groups_per_step": 8,
            "max_lag": 1,
            "threads": 1,
            "tokens_per_micro_batch": 4096,
            "filters": {"zero_variance": "keep"},
            "optimizer": {"lr": 5e-4, "warmup_steps": 2},
            "checkpoint": {"every": 0},
        },
    }


def rubric_model_run(out: Path, steps: int) -> dict[str, Any]:
    """Return the configuration that trains a rubric model on gradings."""
    tree = common(out, RUBRIC, "grade", steps=steps, max_tokens=12)
    tree["evaluation"] |= {"samples": 4}
    tree["scorers"]["tasks"] = {"grade": {"scorer": {"type": "grade"}}}
    return tree


def policy_run(out: Path, mode: str, steps: int) -> dict[str, Any]:
    """Return the configuration that trains a policy with the rubric model, served by vLLM for as long as it goes on."""
    tree = common(out, mode, "policy", steps=steps, max_tokens=28)
    tree["judge"] = {
        "serve": {
            "model": str(out / RUBRIC / "model"),
            "max_model_len": rubric_world.LONGEST,
            "max_num_seqs": 32,
            "kv_cache_mb": 64,
            "enforce_eager": True,
            "arguments": ["--dtype", "float32"],
        }
    }
    endpoint = {"max_tokens": 16, "timeout_s": 120.0, "concurrency": 32}
    tree["scorers"]["tasks"] = {"rubric": {"scorer": {"type": "rubric", "endpoint": endpoint, **MODES[mode]}}}
    return tree


def run(name: str, tree: Mapping[str, Any], out: Path) -> RubricResult:
    """Run a configuration as a user does, if it has not finished yet, audit it, and read what it came to."""
    config = out / f"{name}.yaml"
    config.write_text(yaml.safe_dump(dict(tree), sort_keys=False), encoding="utf-8")
    code = 0
    if not (out / name / "model" / "model.safetensors").exists():
        code = _millrace("up", str(config), "--plain", log=out / f"{name}.log")
    code = code or _millrace("audit", name, "--runs-dir", str(out), log=out / f"{name}.log")
    reward = rewards(out / name, is_held_out=name == RUBRIC)
    sys.stdout.write(f"{name}: exit code {code}, reward {reward[0]:.2f} to {reward[1]:.2f}\n")
    sys.stdout.flush()
    if name == RUBRIC or code:
        return RubricResult(name=name, exit_code=code, reward=reward)
    exported = out / f"{name}.jsonl"
    exported.unlink(missing_ok=True)
    words = ("--runs-dir", str(out), "--out", str(exported), "--outcome", "evaluated")
    code = _millrace("journal", "export", name, *words, log=out / f"{name}.log")
    rounds = held_out(exported) if not code else {}
    ends = (rounds[min(rounds)], rounds[max(rounds)]) if rounds else (None, None)
    return RubricResult(name=name, exit_code=code, reward=reward, before=ends[0], after=ends[1])


def rewards(folder: Path, *, is_held_out: bool) -> tuple[float, float]:
    """Return a run's mean reward at its beginning and at its end, or the mean score of its held-out rounds."""
    records = read_metrics(folder)
    if is_held_out:
        means = [one["mean_score"] for record in records for one in record.get("evaluations", ())]
        return (means[0], means[-1]) if means else (0.0, 0.0)
    means = [record["reward_mean"] for record in records if "reward_mean" in record]
    return (fmean(means[:FIRST]), fmean(means[-LAST:])) if means else (0.0, 0.0)


def held_out(exported: Path) -> dict[int, Derivations]:
    """Return the figures of each held-out round by its version, by the world's own checker."""
    problems: dict[int, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for line in exported.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = QUESTION.search(row["prompt"][-1]["content"])
        assert found is not None, row["prompt"]  # noqa: S101 - the world has no other questions
        problem, text = Sum(*map(int, found.groups())), row["answer"].removesuffix("<|im_end|>")
        box = BOX.findall(text)
        sample = Sample(
            is_right=bool(box) and int(box[-1]) == problem.answer, is_derived=problem.grade(text) == 10
        )
        problems[row["step"]][problem.question].append(sample)
    return {
        version: derivations(list(by_question.values()), k=SAMPLES)
        for version, by_question in problems.items()
    }


def holds(model: RubricResult, policies: Sequence[RubricResult]) -> bool:
    """Tell whether the pipeline ran to its end and its figures point where the rewards do."""
    if model.exit_code or any(policy.exit_code for policy in policies) or model.reward[1] <= model.reward[0]:
        return False
    rates = {policy.name: policy.after.miracle_rate for policy in policies if policy.after is not None}
    outcome, graded = rates.get("outcome"), rates.get("tinyv_only")
    return outcome is not None and graded is not None and graded < outcome


def as_table(model: RubricResult, policies: Sequence[RubricResult]) -> list[str]:
    """Return lines of Markdown: a row for each policy before and after."""
    lines = [
        f"The rubric model's mean score on held-out `grade` rows: {model.reward[0]:.2f} to {model.reward[1]:.2f}.",
        "",
        f"| reward | mean reward | pass@{SAMPLES} | verified pass@{SAMPLES} | right samples | without a derivation |",
        "|---|---|---|---|---|---|",
    ]
    for policy in policies:
        ends = (policy.before, policy.after)
        cells = (
            policy.name if not policy.exit_code else f"{policy.name}: exit code {policy.exit_code}",
            f"{policy.reward[0]:.2f} to {policy.reward[1]:.2f}",
            _both("" if end is None or end.passed is None else f"{end.passed.value:.2f}" for end in ends),
            _both("" if end is None or end.verified is None else f"{end.verified.value:.2f}" for end in ends),
            _both("" if end is None else f"{end.right} of {end.samples}" for end in ends),
            _both(
                "" if end is None or end.miracle_rate is None else f"{end.miracle_rate:.0%}" for end in ends
            ),
        )
        lines.append(f"| {' | '.join(cells)} |")
    words = (
        "each run and its audit ended well, the rubric model's score rose, and `tinyv_only` leaves a smaller share of "
        "right answers without a derivation than the reward for results alone."
    )
    return [
        *lines,
        "",
        "Held out, before to after; verified by a checker of the world that no reward has seen.",
        "",
        f"**{'Holds' if holds(model, policies) else 'Does not hold'}**: {words}",
    ]


def _both(ends: Any) -> str:
    before, after = ends
    return f"{before or 'none'} to {after or 'none'}"


def _millrace(*words: str, log: Path) -> int:
    """Type a command of `millrace`; what it prints is kept. Returns its exit code, 124 after RUN_S."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.main", *words],
            cwd=results.ROOT,
            stdout=output,
            stderr=output,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            return process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
            return 124


if __name__ == "__main__":
    sys.exit(main())
