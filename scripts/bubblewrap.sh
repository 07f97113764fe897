#!/usr/bin/env bash
# Programs that a model wrote run behind bubblewrap's walls where there is one (docs/decisions/0009-the-sandbox.md). Where
# the system has none that is new enough, put Debian's into .venv/bin, where sandbox/walls/bubblewrap.py finds it: no
# root, nothing of the system is changed. Called by setup.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

fits() { "$1" --help 2>&1 | grep -q -- --size; }        # 0.8 and newer: a limit on what is written
if { command -v bwrap >/dev/null && fits bwrap; } || { [ -x .venv/bin/bwrap ] && fits .venv/bin/bwrap; }; then exit; fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
apt() {
    apt-get -qq -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User= "$@" >/dev/null 2>&1
}
if (cd "$folder" && apt update && apt download bubblewrap && dpkg-deb -x bubblewrap_*.deb unpacked) 2>/dev/null &&
    fits "$folder/unpacked/usr/bin/bwrap"; then
    cp "$folder/unpacked/usr/bin/bwrap" .venv/bin/bwrap
else
    printf 'setup: programs run behind Landlock alone, where the kernel has it; bubblewrap 0.8 is better: %s\n' \
        'sudo apt-get install bubblewrap (all else works without)' >&2
fi
