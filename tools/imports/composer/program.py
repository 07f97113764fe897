"""Compose one configuration with Hydra: a JSON request on standard input, the JSON answer on standard output.

In: {"folder": of the primary file, "name": its name, "search": other folders, "words": overrides in the form of Hydra's
command line}. Out: {"values": each key with its value, references resolved, "???" where one is missing} or {"error":
words}. Run by `tools.imports.composer.hydra` with a Python that has hydra-core, and no package of ours: it only reads
YAML, instantiates no class, and imports no code of verl's.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def flat(config: Any, above: str = "") -> dict[str, Any]:
    """Return each key of a configuration, with dots, and its value; "???" for a dangling reference."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    found: dict[str, Any] = {}
    for name in config:
        key = f"{above}{name}"
        try:
            value = "???" if OmegaConf.is_missing(config, name) else config[name]
        except OmegaConfBaseException:
            value = "???"
        if OmegaConf.is_dict(value) and value:
            found.update(flat(value, f"{key}."))
        elif OmegaConf.is_config(value):
            try:
                found[key] = OmegaConf.to_container(value, resolve=True)
            except OmegaConfBaseException:
                found[key] = OmegaConf.to_container(value)
        else:
            found[key] = value
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Compose the requested configuration."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    search = ",".join(f"file://{folder}" for folder in request["search"])
    words = [*request["words"], f"hydra.searchpath=[{search}]"]
    try:
        with initialize_config_dir(request["folder"], version_base=None):
            return {"values": flat(compose(request["name"], overrides=words))}
    except (HydraException, OmegaConfBaseException) as error:
        return {"error": str(error)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin)), default=str))
