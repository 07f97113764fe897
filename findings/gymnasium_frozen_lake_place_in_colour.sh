#!/usr/bin/env bash
# gymnasium 1.4.0: FrozenLake-v1 with render_mode="ansi" shows where the player stands by a background colour alone.
# Seen: reset and a step to the right differ, without their escape codes, in the line "  (Right)" and in nothing else:
# both maps are SFFF FHFH FFFH HFFG. Whoever takes the codes out before a language model reads the text, or whose
# tokenizer or log does, shows it the same map in every state, so the game can't be played from what it reads.
# Right: a mark that is text, as Taxi's map has one for its walls and places, or a bracket around the player's cell.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'gymnasium==1.4.0'
"$folder/venv/bin/python" - <<'PYTHON'
import re

import gymnasium

lake = gymnasium.make("FrozenLake-v1", render_mode="ansi", is_slippery=False)
lake.reset(seed=0)
seen = [lake.render()]
for action in (2, 2):  # to the right, twice
    place, *_ = lake.step(action)
    seen.append(lake.render())
print("player on", place, "of", [repr(text) for text in seen])
maps = {re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n", 1)[1] for text in seen}
assert place == 2
assert len(set(seen)) == 3, "with the codes the states differ"
assert maps == {"SFFF\nFHFH\nFFFH\nHFFG\n"}, "the player's place is text now"
PYTHON
