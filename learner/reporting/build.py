"""This module builds the loggers that the configuration names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from broker.errors import RunFailed
from config.custom import CustomClassError, build
from config.learner import CustomLoggerConfig, LoggerConfig, MetricsFileConfig
from config.run import Run
from learner.reporting.logger import Logger
from learner.reporting.metrics_file import MetricsFile

log = logging.getLogger(__name__)


def build_loggers(run: Run) -> list[Logger]:
    """Build every logger of `learner.loggers`, in their order.

    Raises:
        RunFailed: a custom class can't be imported or built; the message names it.
        OSError: a file can't be opened.
    """
    return [_build(section, run) for section in run.learner.loggers]


def _build(section: LoggerConfig, run: Run) -> Logger:
    match section:
        case MetricsFileConfig():
            return MetricsFile(run.folder)
        case CustomLoggerConfig():
            try:
                return Guarded(section.import_path, build(section, run=run))
            except CustomClassError as error:
                raise RunFailed(f"learner.loggers: {error}") from error
        case _:
            assert_never(section)


class Guarded:
    """Wraps a custom logger, whose failures do not end the run: the training goes on, and a warning says why."""

    def __init__(self, name: str, logger: Logger) -> None:
        self._name = name
        self._logger = logger
        self._said = ""

    def log(self, record: Mapping[str, Any]) -> None:
        """Hand the record on to the custom logger."""
        self._try(lambda: self._logger.log(record))

    def sample(self, record: Mapping[str, Any]) -> None:
        """Hand the sample on to the custom logger."""
        self._try(lambda: self._logger.sample(record))

    def close(self) -> None:
        """Close the logger."""
        self._try(self._logger.close)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - somebody else's code
            if repr(error) != self._said:
                self._said = repr(error)
                log.warning("logger_failed logger=%s error=%r: training goes on", self._name, error)
