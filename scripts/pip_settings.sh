# Sourced by setup.sh and lock.sh: what pip has been told about package indexes, as flags for uv, which does not read it.
# A machine behind a mirror, or with wheels in a folder of its own, then installs from there; any other one from PyPI.
# shellcheck shell=bash

# pip_setting KEY: the value that pip itself would use, nothing where there is none; several are separated by blanks.
pip_setting() {
    local section value
    for section in :env: install global; do
        value=$(sed -n "s/^$section\.$1='\(.*\)'\$/\1/p" <<<"$pip_settings")
        if [ -n "$value" ]; then
            printf '%s\n' "${value//'\n'/ }"
            return
        fi
    done
}

# read_pip_settings PYTHON: fills index_flags (where indexes are) and wheel_flags (folders and pages of single wheels).
read_pip_settings() {
    local pip_settings value
    pip_settings=$("$1" -m pip config list 2>/dev/null || true)
    index_flags=(--index-strategy unsafe-best-match)      # pip's own rule: the best version over all indexes
    wheel_flags=()
    value=$(pip_setting index-url)
    if [ -n "$value" ]; then index_flags+=(--default-index "$value"); fi
    for value in $(pip_setting extra-index-url); do index_flags+=(--index "$value"); done
    for value in $(pip_setting trusted-host); do index_flags+=(--allow-insecure-host "$value"); done
    for value in $(pip_setting find-links); do wheel_flags+=(--find-links "$value"); done
    value=$(pip_setting cert)
    if [ -n "$value" ]; then export SSL_CERT_FILE="${SSL_CERT_FILE:-$value}"; fi
}
