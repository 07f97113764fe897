#!/usr/bin/env bash
# Resolve the dependencies of pyproject.toml.
#   scripts/lock.sh write    requirements/*.txt, for Python 3.11 (`make lock`)
#   scripts/lock.sh check    both extras for Python 3.11 and 3.12, writing nothing (`make resolve`)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/pip_settings.sh
source scripts/pip_settings.sh
read_pip_settings .venv/bin/python

resolve() { # EXTRAS PYTHON FLAGS...
    local extras=() extra
    for extra in $1; do extras+=(--extra "$extra"); done
    .venv/bin/uv pip compile pyproject.toml --quiet "${extras[@]}" --python-version "$2" \
        --python-platform x86_64-manylinux_2_28 --no-annotate --custom-compile-command "make lock" \
        "${index_flags[@]}" "${@:3}"
}

write() {
    local cpu_torch=(--torch-backend cpu)        # the CPU build's few dependencies, from PyTorch's own index ...
    if .venv/bin/uv pip install --quiet --dry-run --no-deps --reinstall --python .venv/bin/python "${index_flags[@]}" \
        "${wheel_flags[@]}" "$(grep -o 'torch==[0-9.]*' pyproject.toml | head -1)+cpu" >/dev/null 2>&1; then
        cpu_torch=("${wheel_flags[@]}")          # ... or from where pip's settings say
    fi
    # The tag of the local build is left out: setup.sh chooses where torch comes from, and a mirror may not have the tag.
    resolve "cpu sandbox dev" 3.11 "${cpu_torch[@]}" | without_tag >requirements/cpu.txt.new
    resolve "gpu flash sandbox dev" 3.11 >requirements/gpu.txt.new
    mv requirements/cpu.txt.new requirements/cpu.txt
    mv requirements/gpu.txt.new requirements/gpu.txt
    # What the containers' images hold: the same versions, without what a role does not need.
    resolve sandbox 3.11 --constraint requirements/cpu.txt >requirements/scorers.txt.new
    resolve "agents sandbox" 3.11 --constraint requirements/cpu.txt >requirements/agents.txt.new
    resolve "model sandbox" 3.11 --constraint requirements/cpu.txt "${cpu_torch[@]}" | without_tag >requirements/learner.txt.new
    mv requirements/scorers.txt.new requirements/scorers.txt
    mv requirements/agents.txt.new requirements/agents.txt
    mv requirements/learner.txt.new requirements/learner.txt
}

without_tag() {
    sed 's/^\(torch==[0-9.]*\)+cpu$/\1/'
}

check() {
    local extra python locked
    for python in 3.11 3.12; do
        for extra in cpu "gpu flash"; do
            locked=$(resolve "$extra sandbox dev" "$python")
            printf 'extra %s, Python %s: %d packages\n' "$extra" "$python" "$(grep -c '==' <<<"$locked")"
        done
    done
}

case ${1:-} in
    write | check) "$1" ;;
    *)
        sed -n 2,4p "$0" >&2
        exit 2
        ;;
esac
