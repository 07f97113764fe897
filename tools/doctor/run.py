"""Check what a configuration names: paths, data, the model's tokenizer, served models.

In: a resolved run; the results of processes about its data and tokenizer. Out: findings. Nothing is downloaded: what is
missing on this machine is reported, with the command that gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker.errors import PipelineError
from config.data import DatasetSource
from config.endpoint import EndpointConfig, base_url
from config.explanations import ConfigError
from config.loading import api_key
from config.places import is_path
from config.run import SCORING_SHARE, Run
from config.scorer_kinds import CustomConfig, ScorerConfig
from learner.launch.preflight import FILES, check_places, single_answers
from scorers.served_model.wire import Wire
from scorers.time_shares import LEAST_S
from tools.doctor.findings import Check, CheckFinding, Level
from tools.doctor.questions import NO_ANSWER, ProbeAnswer, ProbeQuestion
from web.client import Busy

AREA = "run"
PATHS, DATA, TOKENIZER, TEMPLATE, MODEL_FILES, SETTINGS, DEADLINES, GROUPS = (
    Check(AREA, name)
    for name in ("paths", "data", "tokenizer", "template", "model files", "settings", "deadlines", "groups")
)
REPLY_S = 10.0


def questions(words: Sequence[str]) -> list[ProbeQuestion]:
    """Return the questions about a configuration that need heavy libraries."""
    return [ProbeQuestion(name=name, words=words) for name in ("tokenizer", "model", "engine", "data")]


def check_paths(run: Run) -> Iterator[CheckFinding]:
    """Check the keys that name a file or a folder, as `millrace up` does before it starts anything."""
    try:
        check_places(run)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield PATHS.problem(line, do="mend that key, or bring what it names")
    else:
        yield PATHS.ok("all that the configuration names is there")


def check_groups(run: Run) -> CheckFinding:
    """Check that a group has several answers to compare."""
    if says := single_answers(run):
        return GROUPS.problem(says, do="sampling.group_size=8")
    return GROUPS.ok(f"{run.sampling.group_size} answers a group are compared with each other")


def check_deadlines(run: Run) -> CheckFinding:
    """Check that a group of slow answers is scored within its deadline, and report the time per answer."""
    found = [finding for task in run.scorers.tasks if (finding := _slow_group(run, task)) is not None]
    if found:
        return next((one for one in found if one.level is Level.PROBLEM), found[-1])
    times = sorted(
        {(run.scoring_deadline_of(task), run.scoring_window_of(task)) for task in run.scorers.tasks}
    )
    said = ", or ".join(f"{scoring_s:g} s of the {window_s:g} s" for scoring_s, window_s in times)
    return DEADLINES.ok(f"the answers of a group may run for {said} that it has for its scoring")


def _slow_group(run: Run, name: str) -> CheckFinding | None:
    """Return what is to be said of a task whose answers are all slow; None: nothing."""
    task, size = run.scorers.tasks[name], run.sampling.group_size
    whole_s, window_s, scoring_s = (
        run.deadline_of(name),
        run.scoring_window_of(name),
        run.scoring_deadline_of(name),
    )
    share = window_s / whole_s
    played = f", of which agents may play for {whole_s - window_s:g} s" if run.plays(name) else ""
    key = "learner.group_deadline_s" if task.deadline_s is None else f"scorers.tasks.{name}.deadline_s"
    sections = [task.scorer, *(part.scorer for part in task.extra_scorers.values())]
    timed = [section.deadline_s for section in sections if hasattr(section, "deadline_s")]
    all_s = size * len(timed) * max(timed, default=0.0)
    least_s = 2 * size * len(timed) * LEAST_S if all_s > scoring_s else 0.0
    needed_s = run.with_queues_s(max(scoring_s, least_s))
    if needed_s >= window_s:
        return DEADLINES.problem(
            f"scorers.group_deadline_s={scoring_s:g}: a group of {size} slow answers takes up to {needed_s:g} s with "
            f"what queues take, and dies at {key}={whole_s:g}{played}: wrong answers that are slow enough would die "
            "with it, and not be zeros",
            do=f"scorers.group_deadline_s={SCORING_SHARE * window_s:g}, or {key}={2 * needed_s / share:.0f}",
        )
    if all_s <= scoring_s:
        return None
    return DEADLINES.note(
        f"all {size} answers of a group of {name} may run for {scoring_s:g} s together (scorers.group_deadline_s): "
        f"where each is slow, one has {max(LEAST_S, scoring_s / size / len(timed)):.3g} s, and not the "
        f"{max(timed):g} s of deadline_s",
        do=f"{key}={all_s / SCORING_SHARE / share:.0f} where right answers take so long",
    )


def tokenizer(answer: ProbeAnswer, run: Run) -> CheckFinding:
    """Check that every role can load the tokenizer without a network."""
    path = run.model.path
    if not answer.trouble:
        return TOKENIZER.ok(f"{path}: {answer.facts['size']} tokens, with a chat template; no network needed")
    if Path(path).is_dir() or is_path(path):
        return TOKENIZER.problem(
            f"{path}: {answer.trouble}",
            do="save the tokenizer to that folder: tokenizer.save_pretrained(FOLDER), with a chat_template, or "
            "name a template: model.chat_template=FILE.jinja",
        )
    return TOKENIZER.note(
        f"{path} is not on this machine: it will be fetched from the hub at the start",
        do=f"hf download {path}",
    )


def template(answer: ProbeAnswer, run: Run) -> CheckFinding:
    """Check that the policy would see its tasks' tools and their answers, where the tasks could begin."""
    if untold := answer.facts["untold"]:
        return TEMPLATE.note(f"whether {run.model.path} shows tools can't be told: {untold}")
    if objections := answer.facts["objections"]:
        return TEMPLATE.problem(
            "\n".join(f"scorers.tasks.{task}.environment: {why}" for task, why in objections.items()),
            do="model.chat_template=FILE.jinja names one that has tools; or take a model that knows tools",
        )
    shown = ", ".join(f"{count} of {task}" for task, count in answer.facts["tools"].items() if count)
    return TEMPLATE.ok(f"the model's template shows tools: {shown}" if shown else "no task has tools")


def model_files(answer: ProbeAnswer, run: Run) -> Iterator[CheckFinding]:
    """Report the model's files that its own library refuses, and a head that its config does not declare."""
    path = run.model.path
    if answer.trouble and not (Path(path).is_dir() or is_path(path)):
        yield MODEL_FILES.note(f"{path} is not on this machine: the learner looks at its files at the start")
        return
    if answer.trouble:
        yield MODEL_FILES.problem(f"{path}: {answer.trouble}", do="mend the file that it names")
        return
    for word in answer.facts["odd"]:
        yield MODEL_FILES.note(f"{path}: {word}")
    if answer.facts["own_head"]:
        yield MODEL_FILES.note(
            f"{path}: its config ties the output head to the embedding, and its files have a head with other values. "
            "That head is trained and sampled from, and exported models say tie_word_embeddings: false",
            do="nothing; or, to train the tied model, take lm_head.weight out of its files",
        )
    if not answer.facts["odd"] and not answer.facts["own_head"]:
        yield MODEL_FILES.ok(f"{path}: what is beside its weights can be written again")


def settings(answer: ProbeAnswer, run: Run) -> Iterator[CheckFinding]:
    """Check that the engine accepts the model and the settings; nothing where it is not installed here."""
    kind, path = run.generators.engine.type, run.model.path
    if answer.trouble and not (Path(path).is_dir() or is_path(path)):
        return  # not on this machine, which other checks report
    if answer.trouble.startswith(NO_ANSWER):
        yield SETTINGS.note(f"the engine {kind} gives {answer.trouble}")
    elif answer.trouble:
        yield SETTINGS.problem(
            f"the engine {kind} refuses the settings or the model: {answer.trouble.split(' [type=')[0]}",
            do="change what it names, or generators.engine.type",
        )
    elif answer.facts["is_here"]:
        yield SETTINGS.ok(f"the engine {kind} takes the model and the settings")


def data(answer: ProbeAnswer, run: Run) -> CheckFinding:
    """Check that every row of the data is usable."""
    if bad := answer.facts.get("bad_rows"):
        return DATA.problem(
            "\n".join([f"{len(bad)} rows can't be used:", *bad]),
            do="mend these rows or the keys of data.train and data.held_out",
        )
    if not answer.trouble:
        counted = ", ".join(f"{name} {count} rows" for name, count in answer.facts.items())
        return DATA.ok(f"{counted}; each was looked at")
    from_hub = [
        source.path
        for source in run.data.keyed_sources().values()
        if isinstance(source, DatasetSource)
        and not (Path(source.path).exists() or is_path(source.path) or Path(source.path).suffix in FILES)
    ]
    if from_hub:
        return DATA.note(
            f"{answer.trouble}; what is not on this machine will be fetched from the hub at the start",
            do=" && ".join(f"hf download --repo-type dataset {path}" for path in dict.fromkeys(from_hub)),
        )
    return DATA.problem(answer.trouble, do="mend the row or the keys of data.train and data.held_out")


def scorers_of(run: Run) -> Iterator[tuple[str, ScorerConfig]]:
    """Yield all scorers of `run`, each with its key."""
    for name, task in run.scorers.tasks.items():
        yield f"scorers.tasks.{name}.scorer", task.scorer
        for part, found in task.extra_scorers.items():
            yield f"scorers.tasks.{name}.extra_scorers.{part}.scorer", found.scorer


def own_scorers(run: Run) -> dict[str, CustomConfig]:
    """Return the sections of the user's own scorers, by key."""
    return {key: section for key, section in scorers_of(run) if isinstance(section, CustomConfig)}


def check_endpoints(run: Run) -> Iterator[CheckFinding]:
    """Yield for each endpoint whether it serves the configured model."""
    serve = run.judge.serve
    for key, endpoint in run.scorers.endpoints():
        if not endpoint.urls and serve is not None:
            yield Check(AREA, "endpoint").ok(f"{key}: `millrace up` serves {serve.model}")
        elif not endpoint.urls:
            yield Check(AREA, "endpoint").problem(
                f"{key}.urls names no server",
                do=f"{key}.urls='[http://HOST:PORT]', or judge.serve.model=MODEL",
            )
        for url in endpoint.urls:
            yield asyncio.run(check_endpoint(key, url, endpoint))


async def check_endpoint(key: str, url: str, endpoint: EndpointConfig) -> CheckFinding:
    """Check that one server serves the configured model."""
    check = Check(AREA, "endpoint")
    wire = Wire(api_key(endpoint.key_variable), timeout_s=REPLY_S)
    try:
        names = await wire.models(base_url(url))
    except Busy:
        return check.note(f"{url} of {key} is busy, and answers")
    except PipelineError as error:
        return check.problem(
            f"{error} ({key})", do=f"curl {base_url(url)}/models; a key comes from {endpoint.key_variable}"
        )
    finally:
        await wire.close()
    if endpoint.model is not None and endpoint.model not in names:
        return check.problem(
            f"{url} does not serve {endpoint.model!r}, but {', '.join(names) or 'nothing'} ({key})",
            do=f"{key}.model={names[0] if names else 'NAME'}",
        )
    if endpoint.model is None and len(names) != 1:
        return check.problem(
            f"{url} serves {', '.join(names) or 'nothing'}, and {key}.model does not say which",
            do=f"{key}.model={names[0] if names else 'NAME'}",
        )
    return check.ok(f"{url} serves {endpoint.model or names[0]} ({key})")
