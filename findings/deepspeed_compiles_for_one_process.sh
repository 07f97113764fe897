#!/usr/bin/env bash
# deepspeed 0.19.8 with torch 2.13.0 on a CPU: `deepspeed.init_distributed` compiles a C++ extension, the all-reduce in
# shared memory of the ranks of one machine, though there is one process and its backend is gloo. Only the environment
# variables of a launcher are set; no operator is asked for.
# Seen: no compiler runs at `import deepspeed`. Then 7 runs of a compiler: a probe for libaio, which is another
# operator's, and the build of `deepspeed_shm_comm`: 309 s on two busy cores. A second process finds it built, in
# TORCH_EXTENSIONS_DIR, and still runs the compiler 4 times. Where ninja or a compiler is missing, nothing is built.
# Right: nothing to build for a world of one process, as no rank shares memory with another.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'torch==2.13.0' 'deepspeed==0.19.8' 'ninja==1.13.0' 'numpy<3'
mkdir "$folder/bin"
for name in gcc cc c++ g++; do # the same compilers, noted
    real=$(command -v "$name") || continue
    printf '#!/bin/sh\necho %s >> "%s/calls"\nexec %s "$@"\n' "$name" "$folder" "$real" > "$folder/bin/$name"
    chmod +x "$folder/bin/$name"
done
cat > "$folder/look.py" <<'PYTHON'
import os
import sys
import time
from pathlib import Path

os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2]}
os.environ["DS_ACCELERATOR"] = "cpu"
calls = Path(sys.argv[1], "calls")
calls.write_text("")
import deepspeed  # noqa: E402

imported, began = len(calls.read_text().split()), time.monotonic()
deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)
runs, built = len(calls.read_text().split()), list(Path(os.environ["TORCH_EXTENSIONS_DIR"]).rglob("*shm_comm*.so"))
print(f"deepspeed {deepspeed.__version__}: {imported} runs of a compiler at its import, {runs} at init_distributed, "
      f"{time.monotonic() - began:.1f} s, built {[file.name for file in built]}")
sys.exit(0 if imported == 0 and runs > 0 and built else 1)
PYTHON
export TORCH_EXTENSIONS_DIR="$folder/extensions" PATH="$folder/bin:$folder/venv/bin:$PATH"
"$folder/venv/bin/python" "$folder/look.py" "$folder" 29551
"$folder/venv/bin/python" "$folder/look.py" "$folder" 29552
