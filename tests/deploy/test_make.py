"""`make` and an environment that is not its own: a `.venv` that is a link is left as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose `.venv` is a link to an environment that others use, too."""
    shared, folder = tmp_path / "shared", tmp_path / "checkout"
    (shared / "bin").mkdir(parents=True)
    python = shared / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/../calls"\nexit 1\n')
    python.chmod(0o755)
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "scripts", "requirements"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(shared)
    return folder


OF_ITS_MAKE = {"ARGS", "JOBS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"}  # what `make test` passes on


def make(checkout: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name not in OF_ITS_MAKE}
    return subprocess.run(
        ["make", "--no-print-directory", *words],  # `make test` has its own make print them
        cwd=checkout,
        env=own | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("target", ["setup", "setup GPU=1", "setup GPU=1 FLASH_ATTN=1", "clean"])
@pytest.mark.parametrize("installed", ["", "installed-cpu", "installed-gpu"])
def test_an_environment_behind_a_link_is_not_touched(checkout: Path, target: str, installed: str) -> None:
    shared = (checkout / ".venv").resolve()
    if installed:
        (shared / installed).touch()
    before = {path: path.stat().st_mtime_ns for path in shared.rglob("*")}
    done = make(checkout, *target.split())
    assert done.returncode == 0, done.stderr
    is_there = installed and target.startswith("setup")  # then there is nothing to say
    assert is_there or ".venv is a link to" in done.stdout + done.stderr
    assert (checkout / ".venv").is_symlink()
    after = {path: path.stat().st_mtime_ns for path in shared.rglob("*")}
    assert after == before, "and its Python was not called"


def test_a_link_that_leads_nowhere_is_said(checkout: Path) -> None:
    shutil.rmtree((checkout / ".venv").resolve())
    done = make(checkout, "setup")
    assert done.returncode != 0
    assert "leads nowhere" in done.stderr


def test_flash_attn_without_the_gpu_environment_is_refused(checkout: Path) -> None:
    done = make(checkout, "setup", "FLASH_ATTN=1")
    assert done.returncode != 0
    assert "FLASH_ATTN=1 goes with GPU=1" in done.stderr


def own_gpu_environment(checkout: Path) -> Path:
    """Put an environment of the checkout's own in place of the link, as `make setup GPU=1` leaves it."""
    shared = (checkout / ".venv").resolve()
    (checkout / ".venv").unlink()
    shutil.copytree(shared, checkout / ".venv")
    (checkout / ".venv" / "installed-gpu").touch()
    python = checkout / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\n[ "$1" != -c ] || echo 13.0\n')
    uv = checkout / ".venv" / "bin" / "uv"
    uv.write_text('#!/bin/sh\necho "$CUDA_HOME" "$@" >> "$(dirname "$0")/../calls"\n')
    uv.chmod(0o755)
    return checkout / ".venv"


def test_flash_attn_is_built_with_the_nvcc_of_torchs_cuda_alone(checkout: Path, tmp_path: Path) -> None:
    environment = own_gpu_environment(checkout)
    assert make(checkout, "setup", "GPU=1").returncode == 0, "and plain GPU=1 builds nothing"
    (tmp_path / "g++").write_text("#!/bin/sh\n")  # where a machine has none
    (tmp_path / "g++").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"
    cuda = tmp_path / "cuda"
    missing = make(checkout, "setup", "GPU=1", "FLASH_ATTN=1", CUDA_HOME=str(cuda), PATH=path)
    if shutil.which("nvcc", path="/usr/bin:/bin") is None:
        assert missing.returncode != 0
        assert "there is no nvcc" in missing.stderr
    nvcc = cuda / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    for release, is_built in (("12.8", False), ("13.1", True)):
        nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
        nvcc.chmod(0o755)
        done = make(checkout, "setup", "GPU=1", "FLASH_ATTN=1", CUDA_HOME=str(cuda), PATH=path)
        assert (done.returncode == 0) == is_built, done.stderr
        assert ("is of CUDA 12.8" in done.stderr) != is_built
        assert (environment / "installed-flash-attn").exists() == is_built
    (call,) = (environment / "calls").read_text().splitlines()
    assert call.startswith(f"{cuda} pip install ")
    assert "--no-build-isolation flash-attn==" in call


def python_of(version: str, file: Path) -> Path:
    """Put a program there that says it is a Python of that version, and can do nothing else."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo {version}\n')
    file.chmod(0o755)
    return file


def test_a_python_that_is_named_is_the_environments_or_a_new_one_is_made(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / ".venv").unlink()
    own = python_of("3.11", checkout / ".venv" / "bin" / "python")
    (checkout / ".venv" / "installed-cpu").touch()
    same, other, older = (
        python_of(version, tmp_path / f"python{version}") for version in ("3.11", "3.12", "3.10")
    )
    assert make(checkout, "setup").returncode == 0
    assert make(checkout, "setup", f"PYTHON={same}").returncode == 0
    refused = make(checkout, "setup", f"PYTHON={older}")
    assert refused.returncode != 0
    assert f"PYTHON={older} is no Python 3.11 or 3.12" in refused.stderr
    assert own.exists()
    done = make(checkout, "setup", f"PYTHON={other}")
    assert "replacing the environment of Python 3.11 in .venv by one of Python 3.12" in done.stderr
    assert done.returncode != 0, "the made-up Python makes no environment"
    assert not own.exists()


def test_a_python_that_is_named_runs_the_gpus_proofs_without_an_environment(checkout: Path) -> None:
    done = make(checkout, "--dry-run", "prove-gpu", "PYTHON=python3")
    assert done.stdout == "python3 -m benchmarks.proofs.gpu --write \n"
    assert "scripts/setup.sh" not in done.stdout


def test_plain_gpu_setup_installs_all_of_the_lock_but_flash_attn() -> None:
    text = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    assert "flash" in (ROOT / "requirements" / "gpu.txt").read_text(encoding="utf-8")
    assert text.count("flash-attn") == 1
    assert "grep -v '^flash-attn=='" in text
