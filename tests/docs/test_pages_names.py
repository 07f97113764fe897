"""Names that the pages say of this code: keys of the configuration, metrics, keys in Redis."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.pages.pages import CODE, FENCE, PAGES
from tests.support.config_keys import is_key
from tests.support.paths import PACKAGES, ROOT
from tools.metrics.table import AGENT_METRICS, METRICS

SECTIONS = "learner|generators|agents|scorers|sampling|broker|data|evaluation|model"
KEY = re.compile(rf"(?<![\w./-])(?:{SECTIONS})(?:\.[a-z_*][\w*]*)+")
# Whose keys are of something else: of metrics and --json (tests/tools/keys), and of verl (tests/tools/imports).
OTHER_KEYS = frozenset({"metrics.md", "coming_from_verl.md"})
SERVED = {metric.name for metric in (*METRICS, *AGENT_METRICS)}


def is_module(name: str) -> bool:
    """Return whether it is a module of this project, or something in one."""
    package, *rest = name.split(".")
    return (ROOT / package / rest[0]).exists() or importlib.util.find_spec(f"{package}.{rest[0]}") is not None


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in OTHER_KEYS],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_key_of_the_configuration_on_a_page_is_one(page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    said = {key for code in CODE.findall(FENCE.sub("", text)) for key in KEY.findall(code)}
    assert sorted(key for key in said if not is_key(key.split(".")) and not is_module(key)) == []


@pytest.mark.parametrize(
    ("key", "there"),
    [
        ("learner.max_lag", True),
        ("learner.max_lags", False),
        ("learner.optimizer.*", True),
        ("learner.lr", False),
        ("generators.engine.kv_cache_mb", True),
        ("scorers.tasks.math.scorer.require_box", True),
        ("scorers.tasks.*.scorer.endpoint.urls", True),
        ("scorers.tasks.*.scorer.urls", True),
        ("scorers.tasks.*.scorer.addresses", False),
        ("sampling.*", True),
    ],
)
def test_a_key_that_is_none_is_seen(key: str, there: bool) -> None:
    assert is_key(key.split(".")) is there


def test_every_metric_of_an_alert_is_served() -> None:
    text = (ROOT / "docs" / "top.md").read_text(encoding="utf-8")
    named = set(re.findall(r"millrace_\w+", text))
    assert len(named) > 10
    assert named <= SERVED


def shown_messages() -> Iterator[str]:
    """Yield what stands in the first column of docs/failure_modes.md between backticks, and is no name alone."""
    text = (ROOT / "docs" / "failure_modes.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| (.*?) \| ", text, flags=re.MULTILINE):
        yield from (
            code for code in CODE.findall(row) if " " in code.strip() and not code.startswith("millrace ")
        )


def sources() -> str:
    """Return all that this code may say, with texts that go over several lines in one."""
    files = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r"[\"']\s*\n\s*f?[\"']", "", text)


def test_every_message_of_the_page_of_failures_is_one_of_ours() -> None:
    """Each part of it, between the marks for what changes, stands in the code as it stands there."""
    code = sources()
    found = list(dict.fromkeys(shown_messages()))
    assert len(found) > 50
    wrong = [
        (message, part)
        for message in found
        for part in message.split("…")
        if part.strip() and part not in code
    ]
    assert wrong == []
