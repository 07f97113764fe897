"""The configuration of a small vLLM engine that starts on a CPU."""

from __future__ import annotations

from config.generators import VllmEngineConfig

CONFIG = VllmEngineConfig(kv_cache_mb=64, max_num_seqs=4, enforce_eager=True, start_timeout_s=280)
