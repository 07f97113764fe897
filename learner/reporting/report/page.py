"""Write the report of a run, or of two side by side, as one self-contained HTML file.

In: the folders of runs. Out: `report.html`. The template is `page.html` next to this file. A model's texts are escaped,
and the page has no script, so that nothing a model wrote can run. Rank 0 writes the report when a run ends; `millrace
report` writes it at any time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from broker.messages import End
from learner.journal.disk import replace_text
from learner.reporting.report.chart import bar, line_chart, number_text
from learner.reporting.report.examples import Decode, Examples, find_examples
from learner.reporting.report.facts import RunFacts, Series, read_facts
from learner.reporting.report.findings import ReportFinding, findings_of

log = logging.getLogger(__name__)

FILE = "report.html"
MOST_LINES = 5  # in a chart whose metrics have names from the run
ISSUED_TO = frozenset({"prompts", "episodes"})  # streams: a run uses one or both
TEMPLATE = Path(__file__).with_name("page.html")
CUT_SHORT = tuple(str(end) for end in End if end not in {End.MESSAGE, End.ENVIRONMENT})
# Charts in the page's order: section, title, description, the keys of its lines with their names, the lowest value.
CHARTS: tuple[tuple[str, str, str, tuple[tuple[str, str], ...], float | None], ...] = (
    (
        "Learning",
        "Reward",
        "mean of a step's completions",
        (("reward_mean", "all that came back"), ("reward_mean_trained", "trained")),
        None,
    ),
    (
        "Learning",
        "Parts of the scores",
        "mean over all that came back; a shadow scorer's is one of them",
        (("arrived.components.*", ""),),
        None,
    ),
    ("Learning", "Held-out pass rate", "by policy version", (("held_out", "pass rate"),), None),
    ("Learning", "Groups dropped", "share of those that came back", (("dropped_share", "dropped"),), 0.0),
    ("Learning", "Entropy", "nats a token", (("entropy", "entropy"),), 0.0),
    (
        "Learning",
        "Length",
        "tokens of a completion",
        (("response_tokens_mean", "mean"), ("response_tokens_max", "longest")),
        0.0,
    ),
    ("Learning", "Truncated", "share of completions", (("truncated_share", "truncated"),), 0.0),
    (
        "Learning",
        "Answers alike",
        "share of all that came back",
        (
            ("arrived.same_answer_share", "like another of their group"),
            ("arrived.shared_answer_share", "given to another prompt too"),
            ("arrived.repeated_share", "said before in the answer"),
        ),
        0.0,
    ),
    (
        "Episodes",
        "Turns",
        "of the policy in an episode",
        (("episodes.turns_mean", "mean"), ("episodes.turns_max", "most")),
        0.0,
    ),
    (
        "Episodes",
        "Tools",
        "in an episode",
        (("episodes.tool_calls_mean", "calls"), ("episodes.tool_errors_mean", "errors")),
        0.0,
    ),
    (
        "Episodes",
        "Tokens",
        "of an episode, mean",
        (("episodes.sampled_tokens_mean", "sampled"), ("episodes.observed_tokens_mean", "observed")),
        0.0,
    ),
    (
        "Episodes",
        "Ends",
        "share of episodes that neither the policy's last message nor the environment ended",
        tuple((f"episodes.ended_by.{end}", end) for end in CUT_SHORT),
        0.0,
    ),
    ("Optimizer", "Loss", "a trained token", (("loss", "loss"),), None),
    ("Optimizer", "Gradient norm", "before clipping", (("grad_norm", "norm"),), 0.0),
    ("Optimizer", "Learning rate", "", (("lr", "rate"),), 0.0),
    (
        "Optimizer",
        "Clipped",
        "share of trained tokens",
        (
            ("clip_fraction_low", "from below"),
            ("clip_fraction_high", "from above"),
            ("clip_fraction_dual", "dual"),
        ),
        0.0,
    ),
    ("Optimizer", "Divergence to the reference", "nats a token", (("reference_kl", "divergence"),), None),
    ("Optimizer", "Weight of the divergence", "coefficient", (("kl_coef", "coefficient"),), 0.0),
    (
        "Lag and mismatch",
        "Lag",
        "versions between sampling and training",
        (("lag_mean", "mean"), ("lag_max", "largest")),
        0.0,
    ),
    (
        "Lag and mismatch",
        "Importance ratio",
        "to the sampler",
        (("ratio_mean", "mean"), ("ratio_max", "largest")),
        None,
    ),
    (
        "Lag and mismatch",
        "Divergence of sampler and learner",
        "k3, nats a token",
        (("sampler_kl", "all tokens"), ("mismatch_kl", "the same weights")),
        0.0,
    ),
    (
        "Lag and mismatch",
        "Rejected tokens",
        "share of those that were sampled",
        (("rejected_fraction", "rejected"),),
        0.0,
    ),
    (
        "Time",
        "A step",
        "seconds",
        (("seconds", "in all"), ("seconds_wait", "waiting"), ("seconds_train", "training")),
        0.0,
    ),
    (
        "Time",
        "A group's way",
        "seconds by stage",
        (
            ("age_prompts_s", "to be sampled"),
            ("age_sampling_s", "sampling"),
            ("age_rollouts_s", "to be scored"),
            ("age_scoring_s", "scoring"),
            ("age_scored_s", "to be trained"),
        ),
        0.0,
    ),
    (
        "Time",
        "Queues",
        "groups in each stream",
        (
            ("queue_prompts", "prompts"),
            ("queue_episodes", "episodes"),
            ("queue_rollouts", "rollouts"),
            ("queue_scored", "scored"),
        ),
        0.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with its legend."""

    title: str
    about: str
    picture: Markup
    legend: Sequence[tuple[str, str]]  # name, newest value


def write_report(folder: Path, out: Path | None = None, *, other: Path | None = None) -> Path:
    """Write the report of the run in `folder`; returns the file.

    Args:
        folder: of the run.
        out: file to write; None: `report.html` in the folder.
        other: of a second run, shown next to it.
    """
    runs = [read_facts(each) for each in (folder, other) if each is not None]
    file = out or folder / FILE
    replace_text(file, page(runs))
    return file


def page(runs: Sequence[RunFacts]) -> str:
    """Return the page of one run or of two."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    seen = [_seen(facts) for facts in runs]
    return template.render(
        title=" beside ".join(facts.name for facts in runs),
        written=time.strftime("%Y-%m-%d %H:%M"),
        runs=seen,
        sections=_sections(runs),
        number=number_text,
    )


def _seen(facts: RunFacts) -> dict[str, Any]:
    """Return the template's values for one run, except its charts."""
    findings: list[ReportFinding] = findings_of(facts)
    examples: Examples = find_examples(facts, _decoder(facts))
    return {
        "facts": facts,
        "findings": findings,
        "tiles": _tiles(facts),
        "seconds": bar(list(facts.seconds.items()), label="where the time went")
        if any(facts.seconds.values())
        else None,
        "seconds_total": sum(facts.seconds.values()),
        "examples": examples,
    }


def _tiles(facts: RunFacts) -> list[tuple[str, str, str]]:
    """Return name, number and remark of the most important figures."""
    tiles = [
        ("status", str(facts.status.get("status", "unknown")), str(facts.status.get("reason", ""))[:160])
    ]
    tiles.append(("steps", f"{facts.steps:,}", f"of {facts.status.get('steps', '?')}"))
    if (rounds := facts.rounds()) is not None:
        tiles.append(
            ("held-out", f"{rounds.last:.3f}", f"{rounds.values[0]:.3f} at version {rounds.steps[0]:.0f}")
        )
    if (reward := facts.series("reward_mean")) is not None:
        tiles.append(("reward", f"{reward.last:.3f}", f"{reward.values[0]:.3f} at the first step"))
    counts = [f"{facts.outcomes.get(kind, 0):,} {kind}" for kind in ("dropped", "dead")]
    tiles.append(("groups trained", f"{facts.outcomes.get('trained', 0):,}", ", ".join(counts)))
    if (tokens := facts.series("tokens")) is not None:
        tiles.append(("tokens trained", f"{sum(tokens.values):,.0f}", ""))
    tiles.append(("time in steps", _duration(sum(facts.seconds.values())), _incarnations(facts.incarnations)))
    return tiles


def _incarnations(count: int) -> str:
    return "the learner was never started again" if count <= 1 else f"the learner was started {count} times"


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"


def _sections(runs: Sequence[RunFacts]) -> dict[str, list[Drawn]]:
    """Return the charts by section. With two runs each chart has its first metric, with a line for each run."""
    sections: dict[str, list[Drawn]] = {}
    for section, title, about, keys, low in CHARTS:
        chosen = keys if len(runs) == 1 else keys[:1]
        series = [
            found
            for facts in runs
            for key, name in _expanded(facts, chosen)
            if (found := _series(facts, key, name if len(runs) == 1 else facts.name)) is not None
        ]
        if series and any(any(one.values) for one in series):
            legend = [(one.name, number_text(one.last)) for one in series]
            sections.setdefault(section, []).append(
                Drawn(title, about, line_chart(series, label=f"{title}: {about}", low=low), legend)
            )
    return sections


def _expanded(facts: RunFacts, keys: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the keys of a chart's lines; a key that ends with a star gives one for each metric inside an object."""
    found: list[tuple[str, str]] = []
    for key, name in keys:
        inside, is_star, _ = key.partition(".*")
        found += (
            [(f"{inside}.{own}", own) for own in facts.names_in(inside)[:MOST_LINES]]
            if is_star
            else [(key, name)]
        )
    return found


def _series(facts: RunFacts, key: str, name: str) -> Series | None:
    found: Series | None
    if key == "held_out":
        found = facts.rounds()
    elif key == "dropped_share":
        found = facts.shares_dropped()
    elif key.startswith("queue_"):
        found = _queue(facts, key.removeprefix("queue_"))
    else:
        found = facts.series(key)
    return None if found is None else Series(name, found.steps, found.values)


def _queue(facts: RunFacts, stream: str) -> Series | None:
    """Return how many groups were in a stream; None where that is unknown, or no group is issued to it."""
    depths = [
        (record["step"], record["queues"].get(stream, 0)) for record in facts.records if "queues" in record
    ]
    if not depths or (stream in ISSUED_TO and not any(depth for _, depth in depths)):
        return None
    return Series(stream, *zip(*depths, strict=True))


def _decoder(facts: RunFacts) -> Decode:
    """Return a decoder of the run's tokens; it shows ids where the tokenizer can't be loaded."""

    def ids(token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))

    if facts.run is None or not facts.ledger.steps:
        return ids
    from transformers import AutoTokenizer

    model = facts.run.model
    try:  # only files on this machine: a report waits for no hub
        tokenizer = AutoTokenizer.from_pretrained(
            model.path,
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
            local_files_only=True,
        )
    except Exception as error:  # noqa: BLE001 - the model may be gone: the report is still useful
        log.warning("report_without_text run=%s error=%s", facts.name, error)
        return ids
    return lambda token_ids: str(tokenizer.decode(list(token_ids), skip_special_tokens=True))
