"""What a library does with an object of the answer, beside the tests: no protocol of the object's reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.choice import tried
from sandbox.harness.link import Link
from sandbox.harness.remote import Remote, RemoteCallable
from sandbox.program import SandboxMissing
from sandbox.walls.seccomp import Walls
from scorers.code.scorer import CodeTests
from tests.support.sandbox.numpy_inside import lack_of_numpy
from tests.support.tried_again import judged

pytestmark = [pytest.mark.process, pytest.mark.prove(after=3)]

ACTED_ON = """
array array_interface array_struct array_ufunc array_function array_priority array_wrap array_finalize array_namespace
cuda_array_interface dlpack dlpack_device dataframe buffer index complex fspath length_hint bytes trunc missing
copy deepcopy getnewargs getnewargs_ex setstate annotations globals wrapped signature code closure func
self text_signature isabstractmethod dataclass_fields await aiter anext mro_entries subclasscheck set_name path loader
html rich rich_repr pydantic_core_schema sympy
"""


class Deaf:
    """A link that notes what is asked of the answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.side = Deaf.Side(self)

    class Side:
        def __init__(self, link: Deaf) -> None:
            self.link = link

        def asked(self, _role: str, *question: Any) -> Any:
            return self.link.ask(*question)

    def ask(self, *question: Any) -> Any:
        self.asked.append(question)
        return {"data": (1, False)}


@pytest.mark.parametrize("kind", [Remote, RemoteCallable])
@pytest.mark.parametrize("name", ACTED_ON.split())
def test_no_special_name_that_a_library_acts_on_is_asked_of_the_answer(kind: type[Remote], name: str) -> None:
    link = Deaf()
    remote = kind(cast("Link", link), 1, ())
    assert not hasattr(remote, f"__{name}__")
    assert link.asked == []


@pytest.mark.parametrize("name", ["value", "_private", "__dict__", "__name__", "__qualname__", "__mangled"])
def test_what_tests_look_at_is_asked_of_the_answer(name: str) -> None:
    link = Deaf()
    remote = Remote(cast("Link", link), 1, ())
    assert getattr(remote, name) == {"data": (1, False)}
    assert link.asked == [("op", "attr", remote, name)]


@pytest.fixture(scope="module", params=[Walls.BUBBLEWRAP, Walls.LANDLOCK])
def scorer(request: pytest.FixtureRequest) -> Iterator[CodeTests]:
    """Behind these walls; skipped where this machine lacks them, or its Python can't load this numpy."""
    try:
        sandbox = tried(request.param)
    except SandboxMissing as error:
        pytest.skip(str(error))
    if lack := lack_of_numpy(sandbox):
        sandbox.close()
        pytest.skip(lack)
    built = CodeTests(CodeConfig(case_timeout_s=20.0), ScorersConfig(), sandbox)
    yield built
    built.close()


def worth(scorer: CodeTests, program: str, check: str) -> float | None:
    return judged(scorer, program, {"tests": [f"assert {check}"]}).value


# Eight bytes that lie at the same address in both processes: the tests' numpy would read its own memory there.
POINTER = """
import sys
sample = sys.modules["__main__"]._SAMPLE
class Pointer:
    interface = {"shape": (8,), "typestr": "|u1", "version": 3, "data": (id(sample) + bytes.__basicsize__ - 1, True)}
    def __getattr__(self, name):
        if name == "__array_interface__": return self.interface
        raise AttributeError(name)
def root(n): return Pointer()
"""
BYTES = """
class Bytes:
    __array_interface__ = {"shape": (8,), "typestr": "|u1", "version": 3, "data": bytes(range(8))}
def root(n): return Bytes()
"""


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    "check",
    [
        "np.array_equal(root(2), np.arange(8))",
        "np.allclose(root(2), range(8))",
        "np.asarray(root(2)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]",
        "np.array(root(2)).sum() == 28",
    ],
)
@pytest.mark.parametrize("program", [POINTER, BYTES])
def test_numpy_beside_the_tests_reads_no_memory_for_an_object(
    scorer: CodeTests, program: str, check: str
) -> None:
    assert worth(scorer, program, check) == 0.0


@pytest.mark.prove(after=1)
@pytest.mark.parametrize(
    ("program", "check"),
    [
        ("import numpy as np\ndef root(n): return np.arange(8)", "np.array_equal(root(2), np.arange(8))"),
        ("def root(n): return [1.0, 2.0]", "np.allclose(root(2), [1, 2 + 1e-12])"),
        ("import numpy as np\ndef root(n): return np.eye(n)", "np.asarray(root(2)).sum() == 2"),
    ],
)
def test_an_honest_array_travels(scorer: CodeTests, program: str, check: str) -> None:
    assert worth(scorer, program, check) == 1.0
