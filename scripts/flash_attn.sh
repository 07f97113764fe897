#!/usr/bin/env bash
# Build the locked flash-attn into the GPU environment (`make setup GPU=1 FLASH_ATTN=1`). PyPI has no wheel of it: it takes
# nvcc of the CUDA that torch is built for, g++, and an hour or so. The learner does without it, on torch's own kernels.
# Safe to repeat. Not yet run: no machine with a GPU was there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/pip_settings.sh
source scripts/pip_settings.sh

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

if [ -L .venv ]; then
    say ".venv is a link to $(readlink .venv), and stays as it is"
    exit 0
fi
nvcc=$(command -v nvcc || true)
if [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc; fi
[ -n "$nvcc" ] || die "flash-attn is built with CUDA's compiler, and there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda:" \
    "install the CUDA toolkit, or leave out FLASH_ATTN=1"
command -v g++ >/dev/null || die "flash-attn is built with g++ too: sudo apt-get install g++"
wanted=$(.venv/bin/python -c 'import torch; print(torch.version.cuda or "")')
[ -n "$wanted" ] || die "the torch in .venv is built for the CPU: make setup GPU=1"
found=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
[ "${found%%.*}" = "${wanted%%.*}" ] || die "torch is built for CUDA $wanted, and $nvcc is of CUDA $found: set CUDA_HOME"
read_pip_settings .venv/bin/python
say "building $(grep '^flash-attn==' requirements/gpu.txt) (an hour or so; MAX_JOBS=n: n compilers at once, some GB each)"
CUDA_HOME=$(dirname "$(dirname "$nvcc")") .venv/bin/uv pip install --quiet --no-deps --python .venv/bin/python \
    "${index_flags[@]}" --no-build-isolation "$(grep '^flash-attn==' requirements/gpu.txt)"
touch .venv/installed-flash-attn
say "flash-attn is there; learner.attention=auto takes it"
