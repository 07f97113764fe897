"""Tabulate GPU memory: the needs of each rank, each generator and the judge, and the GPUs' capacity.

In: a run that names GPUs or finds some, the size of its model, and the driver's report of this machine's GPUs. Out:
findings: the learner's rank by term, a generator's share, and the sum for each GPU. Where the sum exceeds the GPU, the
finding names one setting that would make it fit. All of it is estimated (`tools.estimates`), also without a GPU here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from config.generators import VllmEngineConfig
from config.gpus import Card
from config.run import Run
from generators.engines.vllm.memory import GpuMemoryShare
from tools.doctor.findings import Check, CheckFinding
from tools.estimates.generators import generator_share, judge_share
from tools.estimates.learner import GIB, RankMemory, rank_memory
from tools.estimates.model import DecoderShape
from tools.up.role_commands import gpus_of_generator, judge_gpus

AREA = "machine"
TABLE, SHARES, PLACES = (Check(AREA, name) for name in ("learner GPUs", "vLLM GPUs", "GPU memory"))
TIGHT = 0.95  # of a GPU: above it the estimate's error decides


def check_gpu_memory(run: Run, shape: DecoderShape | None, seen: Sequence[Card]) -> Iterator[CheckFinding]:
    """Yield the findings about a run's GPUs; none where it has none, or where its model's size is unknown."""
    if shape is None or not wants_gpus(run, seen):
        return
    card_bytes = min((card.total_bytes for card in seen), default=None)
    rank = rank_memory(run, shape, card_bytes=card_bytes)
    share = generator_share(run, shape, card_bytes=card_bytes)
    judge = judge_share(run, card_bytes=card_bytes)
    yield TABLE.ok(table(run, shape, rank, card_bytes))
    if share is not None:
        yield SHARES.ok(share_line(run, share))
    if judge is not None:
        yield SHARES.ok(f"estimate for the judge that is served, GiB: {judge}: {judge.needed / GIB:.1f}")
    yield from places(run, shape, rank, seen)


def wants_gpus(run: Run, seen: Sequence[Card]) -> bool:
    """Return whether the run uses GPUs."""
    learner = run.learner
    return learner.device != "cpu" and bool(
        learner.gpus or run.generators.gpus or seen or learner.device == "cuda"
    )


def table(run: Run, shape: DecoderShape, rank: RankMemory, card_bytes: int | None) -> str:
    """Return a rank's memory by term, as two aligned lines."""
    figures = {**rank.terms, "total": rank.total}
    card = "no GPU is seen here" if card_bytes is None else f"GPUs of {card_bytes / GIB:.1f} GiB"
    many = "its one rank" if run.learner.ranks == 1 else f"each of {run.learner.ranks} ranks"
    return "\n".join(
        (
            f"estimate for {many}, GiB; {shape.parameters / 1e9:.2f} billion parameters, {shape.source}; {card}",
            "  ".join(figures),
            "  ".join(f"{figure / GIB:>{len(name)}.1f}" for name, figure in figures.items()),
        )
    )


def share_line(run: Run, share: GpuMemoryShare) -> str:
    """Return a generator's memory in one line."""
    count = run.generators.count
    many = "its one generator" if count == 1 else f"each of {count} generators"
    return f"estimate for {many}, GiB: {share}: {share.needed / GIB:.1f}"


def places(run: Run, shape: DecoderShape, rank: RankMemory, seen: Sequence[Card]) -> Iterator[CheckFinding]:
    """Yield whether each GPU's contents fit; GPUs with equal contents share a finding."""
    alike: dict[tuple[tuple[tuple[str, int], ...], int], list[int]] = defaultdict(list)
    for index, parts in sorted(takers(run, shape, rank, seen).items()):
        alike[tuple(parts.items()), seen[index].total_bytes].append(index)
    for (parts_of_all, card_bytes), indices in alike.items():
        total = sum(taken for _, taken in parts_of_all)
        sums = " + ".join(f"{name} {taken / GIB:.1f}" for name, taken in parts_of_all)
        sums += f" = {total / GIB:.1f}" if len(parts_of_all) > 1 else ""
        which = f"GPU{'s' * (len(indices) > 1)} {', '.join(map(str, indices))}"
        line = f"{which}: {sums} of {card_bytes / GIB:.1f} GiB"
        has_learner = any(name == "learner" for name, _ in parts_of_all)
        most = TIGHT * card_bytes if has_learner else card_bytes
        if total <= most:
            yield PLACES.ok(line)
            continue
        do = (
            remedy(run, shape, card_bytes=card_bytes, excess=total - most)
            if has_learner
            else _smaller(parts_of_all)
        )
        if total > card_bytes:
            yield PLACES.problem(f"{line}: too little", do=do)
        else:
            yield PLACES.note(f"{line}: nothing is left for the estimate's error", do=do)


def _smaller(parts: Sequence[tuple[str, int]]) -> str:
    """Return what would fit a GPU without a rank of the learner."""
    keys = {"generator": "generators.engine", "judge": "judge.serve"}
    where = " and ".join(keys[name] for name, _ in parts if name in keys)
    return f"a smaller kv_cache_mb or gpu_memory_utilization, or a larger tensor_parallel, of {where}"


def takers(
    run: Run, shape: DecoderShape, rank: RankMemory, seen: Sequence[Card]
) -> dict[int, dict[str, int]]:
    """Return the bytes that ranks, generators and the judge take of each GPU, in this process's numbering."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for number in range(run.learner.ranks):
        found[run.learner.gpus[number] if run.learner.gpus else number]["learner"] += rank.total
    engine = run.generators.engine
    if isinstance(engine, VllmEngineConfig):
        for number in range(run.generators.count):
            for index in gpus_of_generator(run, number) or range(engine.tensor_parallel):
                card_bytes = seen[index].total_bytes if index < len(seen) else None
                share = generator_share(run, shape, card_bytes=card_bytes)
                found[index]["generator"] += 0 if share is None else share.needed
    for index in judge_gpus(run):
        share = judge_share(run, card_bytes=seen[index].total_bytes if index < len(seen) else None)
        found[index]["judge"] += 0 if share is None else share.needed
    return {index: parts for index, parts in found.items() if index < len(seen)}


def remedy(run: Run, shape: DecoderShape, *, card_bytes: int, excess: float) -> str:
    """Return the first setting that frees enough, or that none does alone."""
    before = rank_memory(run, shape, card_bytes=card_bytes).total
    tried = []
    for words, changed in savings(run):
        saved = before - rank_memory(changed, shape, card_bytes=card_bytes).total
        if saved >= excess:
            return f"{words}, which frees {saved / GIB:.1f} GiB of a rank"
        if saved > 0:
            tried.append(words)
    engine = run.generators.engine
    if isinstance(engine, VllmEngineConfig) and set(run.generators.gpus) & set(run.learner.gpus):
        tried.insert(0, "a smaller generators.engine.kv_cache_mb and gpu_memory_utilization")
    several = f"several of {'; '.join(tried)}; or " if tried else ""
    return f"{several}larger GPUs, or more ranks under learner.zero.stage=3"


def savings(run: Run) -> Iterator[tuple[str, Run]]:
    """Yield the learner's settings that save memory, the fastest first, each with the run that has it."""
    for words, learner in _savings(run):
        yield words, run.model_copy(update={"learner": run.learner.model_copy(update=learner)})


def _savings(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    learner = run.learner
    for stage in (2, 3) if learner.ranks > 1 else ():
        if stage > learner.zero.stage:
            yield f"learner.zero.stage={stage}", {"zero": learner.zero.model_copy(update={"stage": stage})}
    tokens, longest = learner.tokens_per_micro_batch, run.data.max_prompt_tokens + run.sampling.max_tokens
    while tokens // 2 >= longest:
        tokens //= 2
        yield f"learner.tokens_per_micro_batch={tokens}", {"tokens_per_micro_batch": tokens}
    if not learner.gradient_checkpointing:
        yield "learner.gradient_checkpointing=true", {"gradient_checkpointing": True}
    if not learner.zero.offload_optimizer and learner.zero.stage > 0:
        offloaded = learner.zero.model_copy(update={"offload_optimizer": True})
        yield "learner.zero.offload_optimizer=true", {"zero": offloaded}
