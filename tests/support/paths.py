"""Where tests find the checkout and what lies beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "config",
    "tasks",
    "broker",
    "web",
    "sandbox",
    "verdicts",
    "agents",
    "generators",
    "scorers",
    "learner",
    "tools",
)  # the product's
RECIPES = ROOT / "config" / "recipes"
# Data sets beside the checkout. They are no part of it: a test that reads them skips where they are absent.
DATA = ROOT.parent / "shared" / "data"
