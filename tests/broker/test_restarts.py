import math

from broker.restarts import RestartPolicy, Restarts


def test_a_failure_doubles_the_pause_until_the_failures_are_too_many() -> None:
    restarts = Restarts(RestartPolicy(most=3, window_s=60.0, first_pause_s=0.5))
    planned = [(restarts.fail(now), restarts.not_before - now) for now in (1.0, 2.0, 3.0, 4.0)]
    assert planned == [(True, 0.5), (True, 1.0), (True, 2.0), (False, 4.0)]
    assert restarts.failures == 4


def test_a_failure_counts_until_it_is_older_than_the_window_or_until_a_reset() -> None:
    restarts = Restarts(RestartPolicy(most=1, window_s=60.0))
    assert [restarts.fail(now) for now in (0.0, 60.0, 61.0)] == [True, True, False]
    restarts = Restarts(RestartPolicy(most=1, window_s=math.inf))
    assert [restarts.fail(now) for now in (0.0, 1e9)] == [True, False]
    restarts.reset()
    assert restarts.fail(1e9 + 1)


def test_an_excused_end_waits_the_first_pause_and_counts_as_no_failure() -> None:
    restarts = Restarts(RestartPolicy(most=5, first_pause_s=0.5))
    restarts.fail(0.0)
    restarts.excuse(10.0)
    assert (restarts.not_before, restarts.failures) == (10.5, 1)
