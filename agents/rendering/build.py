"""Build the rendering of a run's policy.

In: the run. Out: a `Rendering`, opened once per agents' process. A tokenizer that can't be loaded ends the process.
"""

from __future__ import annotations

from agents.rendering.rendering import Rendering
from agents.rendering.scripted import ScriptedRendering
from agents.rendering.templated import load_rendering
from config.generators import ScriptedEngineConfig
from config.run import Run


def open_rendering(run: Run, *, is_offline: bool = False) -> Rendering:
    """Open the rendering of a run's policy.

    Args:
        is_offline: use a folder and the cache, without contacting a hub.
    Raises:
        RunFailed: its tokenizer can't be loaded, or has no chat template.
    """
    if isinstance(run.generators.engine, ScriptedEngineConfig):
        return ScriptedRendering()
    return load_rendering(run.model, is_offline=is_offline)
