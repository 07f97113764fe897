#!/usr/bin/env bash
# vLLM's CPU build loads libnuma.so.1, which no wheel carries and a bare machine has not. Without it, put Debian's into
# .venv/lib, where generators/engines/vllm/engine.py finds it: no root, nothing of the system is changed. Called by setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

.venv/bin/python -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null && exit
[ ! -e .venv/lib/libnuma.so.1 ] || exit 0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
apt() {
    apt-get -qq -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User= "$@" >/dev/null 2>&1
}
if (cd "$folder" && apt update && apt download libnuma1 && dpkg-deb -x libnuma1_*.deb unpacked); then
    cp -L "$folder"/unpacked/usr/lib/*/libnuma.so.1 .venv/lib/libnuma.so.1
else
    printf 'setup: vLLM on a CPU needs libnuma.so.1: sudo apt-get install libnuma1 (all else works without)\n' >&2
fi
