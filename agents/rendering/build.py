"""The one place that builds what a run's section names: the rendering of its policy.

In: the run. Out: a `Rendering`, opened once by a process of agents. A tokenizer that can't be loaded stops it.
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
        is_offline: look into a folder and the cache, and ask no hub.
    Raises:
        RunFailed: its tokenizer can't be loaded, or has no chat template.
    """
    if isinstance(run.generators.engine, ScriptedEngineConfig):
        return ScriptedRendering()
    return load_rendering(run.model, is_offline=is_offline)
