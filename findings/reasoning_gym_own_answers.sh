#!/usr/bin/env bash
# reasoning-gym 0.1.25: its scorers disagree with what is asked.
# Seen: time_intervals reads the fraction of a second as a whole number of milliseconds, so that `.84` is 84 ms and scores
# less than `.840`, which is the same time, while `.80` for `.080` scores 1. In string_manipulation an entry's answer may be
# empty, and then the entry's own answer scores 0.
# Right: `.84` and `.840` are one time, `.080` and `.80` are two; an entry's own answer scores 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'reasoning-gym==0.1.25'
"$folder/venv/bin/python" - <<'PYTHON'
import reasoning_gym

data = reasoning_gym.create_dataset("time_intervals", size=300, seed=3)
entries = [entry for entry in data if entry["metadata"]["task_type"] == "time_ms"]
ends_in_0 = next(entry for entry in entries if entry["answer"].endswith("0") and entry["answer"][-3] != "0")
begins_with_0 = next(entry for entry in entries if entry["answer"][-3] == "0" and entry["answer"].endswith("0"))
shorter = data.score_answer(ends_in_0["answer"].rstrip("0"), ends_in_0)
whole, _, fraction = begins_with_0["answer"].rpartition(".")
another = data.score_answer(f"{whole}.{int(fraction)}", begins_with_0)
print(f"{ends_in_0['answer']} as {ends_in_0['answer'].rstrip('0')}: {shorter}")
print(f"{begins_with_0['answer']} as {whole}.{int(fraction)}: {another}")
assert shorter < 1.0, "a final zero says nothing now"
assert another == 1.0, "a leading zero counts now"

data = reasoning_gym.create_dataset("string_manipulation", size=2000, seed=1)
scores = {data.score_answer("", entry) for entry in data if entry["answer"] == ""}
print("string_manipulation: own answers that are empty score", scores)
assert scores == {0.0}, "an empty answer is scored otherwise now"
PYTHON
