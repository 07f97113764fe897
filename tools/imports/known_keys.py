"""Tell which keys verl has below the sections that one rule covers.

In: a key. Out: whether a configuration of verl, II-VERL, TinyV, RRM or Reasoning360 has it, or allows any name there:
so a misspelt key is unknown there, too. The names are those of their configurations, older and newer ones, and of calls
in their examples: `tables/verl_keys.txt`, one key per line, and those of `tools.imports.versions`. Pure; used by
`tools.imports.translation`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.imports.new_names import older
from tools.imports.versions import KEYS

BELOW_SECTIONS: Final = frozenset(
    (Path(__file__).parent / "tables" / "verl_keys.txt").read_text(encoding="utf-8").split()
)
# Sections with keys of a library or of the user: a model's configuration, an engine's options, Ray's, Hydra's.
OPEN: Final = frozenset(
    {
        "apply_chat_template_kwargs",
        "engine_kwargs",
        "hydra",
        "override_config",
        "override_ddp_config",
        "override_mcore_model_config",
        "override_optimizer_config",
        "override_transformer_config",
        "ray_init",
        "teacher_models",
        "turbo_config",
    }
)


def _above(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


_KNOWN: Final = BELOW_SECTIONS | KEYS.keys() | {older(key) for key in KEYS}
_SECTIONS: Final = frozenset(above for key in _KNOWN for above in _above(key))


def is_known(key: str) -> bool:
    """Return whether verl has the key or section, or leaves its names open."""
    return key in _KNOWN or key in _SECTIONS or not OPEN.isdisjoint(key.split("."))
