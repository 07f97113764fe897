#!/usr/bin/env bash
# redis 8.1.0 with opentelemetry-sdk 1.45.2: `import redis` imports the SDK's metrics wherever that package is
# installed, though nothing was asked to be observed. vLLM brings the SDK, so every process of a system that has both
# pays for it at its start, also those that only talk to Redis.
# Seen: without the SDK none of its modules is loaded; with it 61 are, `opentelemetry.sdk.metrics` among them. Here
# `import redis` took 0.13 s of a processor with it, and 0.10 s without.
# Right: an import when the first provider is set, as the rest of redis.observability waits for one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/look.py" <<'PYTHON'
import sys
import time

began = time.process_time()
import redis  # noqa: E402

loaded = [name for name in sys.modules if name.startswith("opentelemetry")]
print(f"redis {redis.__version__}: {len(loaded)} modules of opentelemetry, {time.process_time() - began:.2f} s")
sys.exit(0 if ("opentelemetry.sdk.metrics" in loaded) == (sys.argv[1] == "with") else 1)
PYTHON
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'redis==8.1.0'
"$folder/venv/bin/python" "$folder/look.py" without
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'opentelemetry-sdk==1.45.2'
"$folder/venv/bin/python" "$folder/look.py" with # the first run compiles the modules
"$folder/venv/bin/python" "$folder/look.py" with
