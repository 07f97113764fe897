"""Each test has one tier, which follows from where the test lies and from what it asks for.

In:  a test's path, name, markers and fixtures.
Out: `unit`, `redis`, `process`, `e2e` or `model`.

A marker on a test or a module (`pytestmark = pytest.mark.process`) comes first, then the longest entry of `PLACES`.
For what neither names, the fixtures decide: `redis` with a server of its own, else `unit`.
"""

from __future__ import annotations

from collections.abc import Iterable

TIERS = {
    "unit": "needs nothing but this process",
    "redis": "needs a redis-server besides",
    "process": "starts processes or a sandbox, or works for seconds",
    "e2e": "whole runs, started as users start them",
    "model": "loads or trains a model",
}
FAST = ("unit", "redis")
REDIS_FIXTURES = {"_shared_redis"}

PLACES = {
    "tests/e2e/": "e2e",
    "tests/benchmarks/test_exact_resume.py": "e2e",
    "tests/compatibility/": "e2e",
    "tests/generators/engines/": "model",
    "tests/learner/training/": "model",
    "tests/learner/objective/": "model",
    "tests/tools/test_demo_model.py": "model",
    "tests/generators/test_decoding.py": "model",
    "tests/benchmarks/": "process",
    "tests/broker/private_redis/": "process",
    "tests/broker/test_connection.py": "process",
    "tests/broker/test_processes.py": "process",
    "tests/config/test_entry_points.py": "process",
    "tests/docs/test_redis_cli_page.py": "process",
    "tests/docs/test_scorers_page.py": "process",
    "tests/generators/test_processes.py": "process",
    "tests/learner/launch/": "process",
    "tests/learner/reporting/test_metrics.py::test_the_picture_is_drawn": "process",
    "tests/learner/resume/test_recovery.py": "process",
    "tests/learner/test_main.py": "process",
    "tests/learner/test_session.py": "process",
    "tests/protocol/": "process",
    "tests/scorers/child/": "process",
    "tests/scorers/code/": "process",
    "tests/scorers/pool/": "process",
    "tests/scorers/reward_server/": "process",
    "tests/scorers/sandbox/": "process",
    "tests/scorers/simulation/": "process",
    "tests/scorers/swe/": "process",
    "tests/scorers/test_api.py": "process",
    "tests/scorers/test_group.py": "process",
    "tests/scorers/test_self_tests.py": "process",
    "tests/tools/chaos/": "process",
    "tests/tools/judge_check/": "process",
    "tests/tools/metrics/": "process",
    "tests/tools/score/": "process",
    "tests/tools/test_commands.py": "process",
    "tests/tools/top/test_bottleneck_of_runs.py": "process",
    "tests/tools/up/": "process",
    # No process is started here, but these work for seconds.
    "tests/generators/test_worker.py": "process",
    "tests/learner/groups/test_collector.py": "process",
    "tests/learner/journal/test_columns.py": "process",
    "tests/learner/journal/test_ledger.py": "process",
    "tests/learner/resume/test_config_changes.py": "process",
    "tests/scorers/judge/test_scorer.py": "process",
    "tests/scorers/livebench/test_scorer.py::test_no_text_is_slow": "process",
    "tests/scorers/instructions/test_scorer.py::test_hostile_texts_take_linear_time": "process",
    "tests/scorers/math/test_corpus.py": "process",
    "tests/scorers/math/test_scorer.py": "process",
    "tests/scorers/rubric/test_scorer.py": "process",
    "tests/scorers/served_model/": "process",
    "tests/scorers/test_data_sets.py": "process",
    "tests/scorers/test_growth.py": "process",
    "tests/scorers/test_rules.py": "process",
    "tests/scorers/text/test_extract.py::test_no_text_makes_extraction_slow": "process",
    "tests/test_map.py::test_config_and_broker_load_no_heavy_library_through_others": "process",
    "tests/test_rules_for_tests.py": "process",
    "tests/tools/trace/": "process",
}


def tier_of_place(nodeid: str) -> str | None:
    """The tier that the table gives to a file or a test, `None` where fixtures decide."""
    name = nodeid.partition("[")[0]
    found = [
        place for place in PLACES if name == place or name.startswith((place.rstrip("/") + "/", f"{place}::"))
    ]
    return PLACES[max(found, key=len)] if found else None


def tier_of(nodeid: str, markers: Iterable[str], fixtures: Iterable[str]) -> str:
    """The one tier of a test.

    Raises:
        ValueError: two markers name two tiers.
    """
    marked = set(markers) & TIERS.keys()
    if len(marked) > 1:
        raise ValueError(f"{nodeid} has more than one tier: {sorted(marked)}")
    if marked:
        return marked.pop()
    return tier_of_place(nodeid) or ("redis" if REDIS_FIXTURES & set(fixtures) else "unit")
