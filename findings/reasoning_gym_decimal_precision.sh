#!/usr/bin/env bash
# reasoning-gym 0.1.25: making one entry of decimal_arithmetic sets the precision of Python's decimal arithmetic for the
# whole thread, and leaves it so.
# Seen: before, 1/3 has 28 digits; after, it has as many as the entry asked for (12 by default), in code that has
# nothing to do with it: an exact sum of money, a checker of another data set, a test.
# Right: a library computes in a local context (decimal.localcontext), and gives the caller's back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'reasoning-gym==0.1.25'
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal, getcontext

import reasoning_gym

before = Decimal("471122566161218.5") + 1
reasoning_gym.create_dataset("decimal_arithmetic", size=1, seed=0)[0]
after = Decimal("471122566161218.5") + 1
print("before:", before, " after:", after, " precision:", getcontext().prec)
assert str(before) == "471122566161219.5"
assert after != before and getcontext().prec == 12, "the caller's context is given back now"
PYTHON
