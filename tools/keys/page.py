"""Pages of the reference in Markdown: docs/configuration.md, metrics.md, row_types.md and redis_keys.md.

In: the parts of the configuration, the tables of metrics and of keys in Redis, the kinds of tasks. Out: each page's
text. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from broker.keys import TABLE, Keys
from learner.reporting.keys import KEYS, as_table
from tasks import kinds
from tools.keys.sections import NAME, Key, SectionKeys, title_of
from tools.metrics.table import AGENT_METRICS, METRICS, Metric
from tools.top.keys import KEYS as TOP_KEYS

CONFIGURATION = """# Configuration

Every key of a run's configuration. `millrace keys --markdown configuration` writes this page from the docstrings of
[config](../config); on a terminal `millrace keys TEXT` shows the keys and metrics with TEXT in them. How files, the
environment and the command line make one configuration: [Configuration](running.md#configuration).

`NAME` stands for a name of your own. Where several sections may stand, `type` says which; the one marked *default*
stands there where the section is left out. *Unset* is `null` in YAML.
"""

METRICS_PAGE = """# Metrics

`millrace keys --markdown metrics` writes this page. [Watching a run](top.md) says how to read these numbers.
"""

STEP = """## `metrics.jsonl`

The learner writes one object for each step into `runs/NAME/metrics.jsonl`. TensorBoard, Weights & Biases and trackio
get the same numbers, with `/` for the dots. An objective may add names of its own.
"""

TOP = """## `millrace top RUN --json`

Seconds and shares are numbers, a share from 0 to 1; null means unknown. A key with a dot is one inside an object, or
inside each object of a list.
"""

PROMETHEUS = """## Prometheus

`millrace metrics RUN` serves these. A counter ends with `_total`; a process's counters begin at 0 with the process, and
go a few seconds after its last heartbeat. `process` is HOST-PID-HEX, so a restart makes new series. `for` says what the
process waited for: `prompts`, `episodes`, `weights`, `rollouts`, `groups`, `late` (older groups must come first),
`round` (an evaluation), `operator`.
"""


ROW_TYPES = """# Row types

`millrace keys --markdown row_types` writes this page from [tasks/kinds.py](../tasks/kinds.py). Each kind of scorer, the
types of rows that it reads (`verification_info.type`), what an `answer` of them holds, and the data sources of verl,
TinyV, RRM and Reasoning360 that are routed to it; `*` stands for any text. [What each scorer
accepts](scorer_rules.md) says how they are scored.
"""

REDIS_KEYS = f"""# Keys in Redis

`millrace keys --markdown redis_keys` writes this page from [broker/keys.py](../broker/keys.py). Every key of a run
begins with `{Keys("NAME").prefix}`; the braces are part of it. [redis-cli.md](redis-cli.md) asks for them by hand. RQ's
own keys are global: `rq:queue:NAME.math` and the like, `rq:job:NAME_GROUP_NUMBER`, `rq:worker:…`.
"""


def configuration(parts: Sequence[SectionKeys]) -> str:
    """Return docs/configuration.md."""
    titles = frozenset(part.title for part in parts)
    lines = [line for part in parts for line in _part(part, titles)]
    return "\n".join([CONFIGURATION, *lines])


def metrics() -> str:
    """Return docs/metrics.md."""
    tables = [
        *STEP.splitlines(),
        "",
        *as_table(KEYS),
        "",
        *PROMETHEUS.splitlines(),
        "",
        *_table(METRICS),
        "",
        "These are served of a run with an environment, or with agents:",
        "",
        *_table(AGENT_METRICS),
        "",
        *TOP.splitlines(),
        "",
        *as_table(TOP_KEYS),
    ]
    return "\n".join([METRICS_PAGE, *tables, ""])


def row_types() -> str:
    """Return docs/row_types.md."""
    return "\n".join([ROW_TYPES, *kinds.as_table(), ""])


def redis_keys() -> str:
    """Return docs/redis_keys.md."""
    rows = [
        f"| {', '.join(f'`{name}`' for name in row.names.split(', '))} | {' | '.join(row[1:])} |"
        for row in TABLE
    ]
    head = ["| key | kind | holds | written by | goes |", "|---|---|---|---|---|"]
    return "\n".join([REDIS_KEYS, *head, *rows, ""])


def anchor(title: str) -> str:
    """Return what GitHub makes of a heading, to link to."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _part(part: SectionKeys, titles: Collection[str]) -> Iterator[str]:
    if part.place:
        yield f"{'##' if '.' not in part.place else '###'} {part.title}"
        yield ""
    if part.says:
        mark = " *Default.*" if part.is_default else ""
        yield f"{part.says}{mark}"
        yield ""
    if part.kinds:
        links = [f"[{kind}](#{anchor(title_of(part.place, kind))})" for kind in part.kinds]
        yield f"`type` is one of {', '.join(links)}."
        yield ""
    yield from (_key(part, key, titles) for key in part.keys)
    for title, names in part.same:
        said = ", ".join(f"`{name}`" for name in names) or "the same keys"
        yield f"- {said}: as in [{title}](#{anchor(title)})"
    if part.keys or part.same:
        yield ""


def _key(part: SectionKeys, key: Key, titles: Collection[str]) -> str:
    """Return a key's line; one that opens a section leads to it."""
    below = f"{part.place}.{key.name}".lstrip(".")
    title = next((one for one in (below, f"{below}.{NAME}") if one in titles), "")
    name = f"[**{key.name}**](#{anchor(title)})" if title else f"**{key.name}**"
    default = "required" if key.is_required else key.default and f"default `{key.default}`"
    default = "unset" if key.default == "unset" else default
    kind = "" if key.kind == "section" else f"`{key.kind}`"
    said = ", ".join(one for one in (kind, default) if one)
    return f"- {name}{f' ({said})' if said else ''}: {key.says}"


def _table(metrics: Sequence[Metric]) -> list[str]:
    """Return the table of some metrics, with its head."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels) or '-'} | {one.says} |"
        for one in metrics
    ]
    return ["| name | type | labels | means |", "|---|---|---|---|", *rows]
