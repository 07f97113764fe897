"""Write a translation as the YAML of a run, each line with its reason.

In: settings, and the account of every key. Out: the text of `run.yaml`, and the list for people. The configuration's
own rules check the run before anything is written, and the file appears complete or not at all.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from config.layers import Leaf, Tree, leaves_of, put
from config.loading import build_run
from config.run import Run
from tools.imports.rule import Account, KeyTranslation, KeyVerdict
from tools.imports.translation import DEFAULT, Setting, Translation

ORDER: Final = tuple(Run.model_fields)
WIDTH: Final = 60  # columns before a comment
_UNION: Final = "type"  # first in its section


class _Noted:
    """A value with its reason."""

    def __init__(self, setting: Setting) -> None:
        self.value, self.why = setting.value, setting.why


def flat(translation: Translation) -> list[Setting]:
    """Return one setting for each value; for a section made at once, the first has the reason."""
    found: list[Setting] = []
    for setting in sorted(translation.settings, key=_place):
        for place, leaf in enumerate(leaves_of(setting.why, setting.value, tuple(setting.path.split(".")))):
            found.append(
                Setting(path=".".join(leaf.path), value=leaf.value, why="" if place else setting.why)
            )
    return found


def leaves(translation: Translation) -> list[Leaf]:
    """Return the translation's settings as leaves of a configuration."""
    return [Leaf(tuple(one.path.split(".")), one.value, one.why) for one in flat(translation)]


def checked(translation: Translation) -> Run:
    """Build the run of the translation. Raises ConfigError that names our key and theirs."""
    layers: list[tuple[str, Tree]] = []
    for setting in sorted(translation.settings, key=lambda one: not one.path.endswith(f".{_UNION}")):
        tree: Tree = {}
        put(tree, tuple(setting.path.split(".")), setting.value)
        layers.append((setting.why, tree))
    return build_run(layers)


def as_yaml(translation: Translation, sources: Sequence[str]) -> str:
    """Write the run as YAML, and keys without meaning here as comments at the end."""
    tree: Tree = {}
    for setting in flat(translation):
        put(tree, tuple(setting.path.split(".")), _Noted(setting))
    lines = [f"# Made by `millrace import` of {', '.join(sources)}. Behind each line: where it comes from."]
    for section in sorted(tree, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)):
        lines += _lines(section, tree[section], 0)
    left = [one for one in translation.accounts if one.outcome.verdict is KeyVerdict.NOTHING]
    if left:
        lines += ["", "# Without meaning here:"]
        lines += [f"#   {one.said.shown}={_short(one.said.value)}: {one.outcome.words}" for one in left]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file completely, or not at all. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def report(translation: Translation) -> list[str]:
    """List every key in the sources by its translation, and verl's defaults that became explicit."""
    lines: list[str] = [f"note: {one}" for one in translation.notes]
    for verdict in KeyVerdict:
        found = [one for one in translation.accounts if one.outcome.verdict is verdict]
        if found:
            lines.append(f"{verdict} ({len(found)})")
            lines += [f"  {_told(one)}" for one in found]
    if translation.options:
        lines.append(f"options of the call ({len(translation.options)})")
        lines += [f"  {_with_verdict(one)}" for one in translation.options]
    if translation.variables:
        lines.append(f"variables ({len(translation.variables)})")
        lines += [f"  {_with_verdict(one)}" for one in translation.variables]
    said = [one for one in translation.settings if one.why.startswith(DEFAULT)]
    if said:
        lines.append(f"verl's defaults, which nobody wrote ({len(said)})")
        lines += [f"  {one.path}={_short(one.value)}  {one.why}" for one in said]
    return lines


def as_json(translation: Translation) -> dict[str, Any]:
    """Return the report for programs."""
    return {
        "keys": [_entry(one) for one in translation.accounts],
        "options": [_entry(one) for one in translation.options],
        "variables": [
            {name: value for name, value in _entry(one).items() if name != "value"}
            for one in translation.variables
        ],
        "notes": list(translation.notes),
        "settings": [{"key": one.path, "value": one.value, "why": one.why} for one in translation.settings],
    }


def _entry(account: Account) -> dict[str, Any]:
    said, outcome = account.said, account.outcome
    return {
        "key": said.shown,
        "value": said.value,
        "where": said.where,
        "verdict": str(outcome.verdict),
        "here": dict(outcome.settings),
        "why": outcome.words,
    }


def _with_verdict(account: Account) -> str:
    """Describe an option or a variable, in a list of all verdicts."""
    said, outcome = account.said, account.outcome
    verdict = f"{outcome.verdict}{'' if outcome.settings else ':'}"
    value = "" if said.value in (None, "") else f"={_short(said.value)}"
    return f"{said.key}{value} ({said.where}): {verdict} {_here(outcome)}"


def _told(account: Account) -> str:
    said, outcome = account.said, account.outcome
    here = _here(outcome)
    return f"{said.shown}={_short(said.value)} ({said.where}){' -> ' if here else ''}{here}"


def _here(outcome: KeyTranslation) -> str:
    ours = ", ".join(f"{path}={_short(value)}" for path, value in outcome.settings.items())
    return f"{ours}{': ' if ours and outcome.words else ''}{outcome.words}"


def _place(setting: Setting) -> tuple[str, bool, str]:
    section, _, leaf = setting.path.rpartition(".")
    return (section, leaf != _UNION, "") if section else ("", False, leaf)


def _lines(key: str, value: Any, depth: int) -> Iterable[str]:
    """Yield the lines of a section, or of a value with its reason."""
    indent = "  " * depth
    if isinstance(value, dict):
        yield f"{indent}{key}:"
        for inner, one in value.items():
            yield from _lines(inner, one, depth + 1)
        return
    line = f"{indent}{key}: {_short(value.value)}"
    why = f"# {value.why}" if value.why else ""
    yield f"{line.ljust(WIDTH)}{'  ' if len(line) >= WIDTH else ''}{why}".rstrip()


def _short(value: Any) -> str:
    """Write a value in one line of YAML."""
    if isinstance(value, str) and "\x00" in value:
        return f"({value.partition(chr(0))[2]})"
    written: str = yaml.safe_dump(
        value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True
    )
    return written.strip().removesuffix("\n...").strip()
