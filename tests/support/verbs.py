"""A verb of `millrace`, called by a test that wants its errors raised."""

from __future__ import annotations

from importlib import import_module

from tools.main import VERBS, parse


def call(verb: str, *words: str) -> int:
    """Parses and runs a verb; unlike `tools.main.main` it turns no error into a message and a code."""
    _, options = parse(verb, words)
    code: int = import_module(VERBS[verb].module).run(options)
    return code
