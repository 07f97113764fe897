"""C for reasoning-gym: the process that has the library, and a fork of it for each answer.

In: a data set's module, its name and one of its entries; then answers, one after the other. Out: what the data set's
own `score_answer` says of each, as data. It was forked before T had read the nonce. Each answer is judged by a child of
its own, with a deadline and a limit of memory, so that none leaves anything behind for the next.

The library's scorers read some answers with `eval`; here the name stands for a reader of literals in their modules, so
no text is run that way. Those that call sympy's parser get texts that `verdicts.gym.rules` has looked at. The library's
packages import everything that all data sets are generated with, matplotlib too. Here only the one module is imported,
and what that module needs for generating alone may be missing. Where the missing part is used all the same, the
machinery failed, not the answer.
"""

# ruff: noqa: PTH109 -- pathlib is not worth its import

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import json
import os
import select
import sys
import time
from _signal import ITIMER_REAL, SIG_DFL, SIGALRM, setitimer, signal  # type: ignore[import-not-found]

from sandbox.harness.pipe import Gone, Pipe

if False:
    from typing import Any

LIBRARY = "reasoning_gym"
# What is imported for generating and drawing alone.
ABSENT = ("bfi", "cellpylib", "dateutil", "drawsvg", "pycosat", "pytz", "rich", "tabulate", "yaml")
ENTIRE = ("data", "coaching")  # packages whose __init__ the modules import from
SLACK_S = 2.0  # that a child may outlive its time: the walls let nobody kill it
MAX_SAID = 1 << 16  # bytes that a child may say
USED: list[str] = []  # absent packages that something was asked of
# Modules that call `eval` on an answer; what they mean is a list.
READERS = ("string_insertion", "spiral_matrix", "binary_matrix", "number_sorting", "n_queens")
WHOLE_NUMBERS = {"puzzle24": "int", "countdown": "float"}  # they cut or round what an expression comes to
TUPLES = ("arc_agi", "rearc")  # their boards are compared with tuples, which JSON does not have


class Absent(type(sys)):  # type: ignore[misc]
    """A package that is not here. It may be imported, and asked for names; using one is noted."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(self.__name__)


class Nothing:
    """What an absent package is said to hold."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Note that it is used. Raises ImportError."""
        USED.append(self._package)
        raise ImportError(f"{self._package} is not in the sandbox")

    __getattr__ = __call__


class AbsentFinder:
    """Makes an absent package of each of ABSENT, whatever of them the interpreter inside may have."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """See importlib.abc.MetaPathFinder; it stands first."""
        del path, target
        if name.partition(".")[0] not in ABSENT:
            return None
        return importlib.util.spec_from_loader(name, Loader, is_package=True)  # type: ignore[arg-type]


class Loader:
    """See importlib.abc.Loader."""

    @staticmethod
    def create_module(spec: Any) -> Any:
        """Return an absent package."""
        return Absent(spec.name)

    @staticmethod
    def exec_module(module: Any) -> None:
        """Run nothing."""


def scorer_of(module: str, dataset: str) -> Any:
    """Return the data set's own `score_answer`. Raises whatever stands in its way."""
    found = importlib.util.find_spec(LIBRARY)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"{LIBRARY} is not in the sandbox")
    root = found.submodule_search_locations[0]
    folders = [entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name not in ENTIRE]
    for name, folder in [(LIBRARY, root), *((f"{LIBRARY}.{name}", f"{root}/{name}") for name in folders)]:
        package: Any = type(sys)(name)
        package.__path__ = [folder]
        sys.modules[name] = package  # in place of one that imports all that is in it
    sys.meta_path.insert(0, AbsentFinder)
    importlib.import_module(
        f"{LIBRARY}.coaching"
    )  # it and `factory` import each other: in this order they can
    loaded: Any = importlib.import_module(module)
    if module.rpartition(".")[2] in READERS:
        loaded.eval = ast.literal_eval
    if dataset in WHOLE_NUMBERS:
        setattr(loaded, WHOLE_NUMBERS[dataset], whole)
    kind, config = importlib.import_module(f"{LIBRARY}.factory").DATASETS[dataset]
    score = kind(config=config()).score_answer
    if USED:
        raise ImportError(f"{USED[0]} is not in the sandbox")
    return score


def whole(value: Any) -> int:
    """Return a whole number, or the text of one, as an int. Raises ValueError for any other number."""
    number = int(value)
    if type(value) is not str and number != value:
        raise ValueError(f"{value} is not whole")
    return number


def serve(pipe: Pipe) -> None:
    """Judge answers until T has no more."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", HOME=os.getcwd())
    try:
        job = pipe.receive()
        try:
            score = scorer_of(job["module"], job["dataset"])
            entry = _entry(job)
        except Exception as error:  # noqa: BLE001 - T is told what it is
            pipe.send({"unfit": f"{type(error).__name__}: {error}"[:300]})
            return
        pipe.send({"ready": True})
        while True:
            pipe.send(_apart(score, entry, pipe.receive(), job))
    except Gone:
        return


def _entry(job: Any) -> Any:
    entry = json.loads(job["entry"])
    metadata = entry["metadata"]
    if job["dataset"] in TUPLES:
        metadata["output"] = tuple(tuple(line) for line in metadata["output"])
    return entry


def _apart(score: Any, entry: Any, answer: str, job: Any) -> dict[str, Any]:
    """Score one answer in a child of its own, and return what became of it."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            _limit(job["answer_s"], job["memory_bytes"])
            os.write(sink, json.dumps(_said(score, copy.deepcopy(entry), answer)).encode("ascii"))
        finally:
            os._exit(0)
    os.close(sink)
    text = _heard(source, time.monotonic() + job["answer_s"] + SLACK_S)
    os.close(source)
    _, status = (0, SIGALRM) if text is None else os.waitpid(child, 0)
    if text is None or status == SIGALRM:
        return {"late": True}
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"died": status}
    return said


def _limit(seconds: float, memory_bytes: int) -> None:
    """Have the kernel end this process when its time is over."""
    import resource

    signal(SIGALRM, SIG_DFL)
    setitimer(ITIMER_REAL, seconds)
    getattr(sys, "set_int_max_str_digits", int)(4300)  # programs may write more, an answer to read may not
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _said(score: Any, entry: Any, answer: str) -> dict[str, Any]:
    try:
        value = float(score(answer, entry))
    except MemoryError:
        return {"over": "memory"}
    except Exception as error:  # noqa: BLE001 - the library's own, over a text that it can't read, say
        return {"absent": USED[0]} if USED else {"raised": f"{type(error).__name__}: {error}"[:200]}
    if USED:
        return {"absent": USED[0]}
    return {"value": value} if value - value == 0 else {"raised": f"the value {value}"}


def _heard(source: int, deadline: float) -> bytes | None:
    """Return what a child says until it ends; None where it does not end in time."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    text = b""
    while len(text) < MAX_SAID:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            return None
        part = os.read(source, MAX_SAID)
        if not part:
            break
        text += part
    return text
