"""The wheel: every file of the packages is in it, and the demo runs from it in any folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import PACKAGES, ROOT
from tests.support.verl_runs import variables

pytestmark = pytest.mark.process

BUILD = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it of the files that git tracks, elsewhere: a build leaves folders behind."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in tracked(*PACKAGES, "pyproject.toml", "README.md", "LICENSE"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    command = [sys.executable, "-c", BUILD, str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


def tracked(*places: str) -> list[str]:
    """Files that git tracks, or would: those of a change that is not committed yet are meant, too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *places]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in listed if name and (ROOT / name).is_file()]


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    missing = [name for name in tracked(*PACKAGES) if name not in names]
    assert missing == []
    assert {"broker/lua/hand_over.lua", "config/recipes/demo_model/model.safetensors"} <= names
    assert not {name.split("/")[0] for name in names} & {"tests", "benchmarks", "docs"}


def test_the_extra_that_the_demo_needs_is_the_one_that_messages_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    model = {wanted.split("=")[0].split(">")[0] for wanted in project["optional-dependencies"]["model"]}
    assert {"torch", "deepspeed", "transformers"} <= model


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_the_demo_runs_from_the_wheel_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """The libraries are this environment's; the packages are the wheel's, unpacked as pip does it."""
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = (
        "import sys, config, broker, tools.main; "
        f"assert all(module.__file__.startswith({str(site)!r}) for module in (config, broker, tools.main)); "
        "sys.exit(tools.main.main(sys.argv[1:]))"
    )
    settings = ["learner.steps=2", "evaluation.every=0", "learner.groups_per_step=4"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "up", "config/recipes/demo_cpu.yaml", *settings], cwd=empty,
        env=variables(tmp_path, PYTHONPATH=str(site)), text=True, capture_output=True, timeout=380,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run demo: finished after 2 of 2 steps" in done.stdout
    assert (empty / "runs" / "demo" / "report.html").is_file()
