"""Build the configured loggers."""

from __future__ import annotations

import importlib.util
import logging
import netrc
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, assert_never
from urllib.parse import urlsplit

from broker.errors import RunFailed
from config.custom import CustomClassError, build
from config.learner.reporting import (
    CustomLoggerConfig,
    LoggerConfig,
    MetricsFileConfig,
    TensorBoardConfig,
    TrackioConfig,
    WandbConfig,
)
from config.run import Run
from learner.reporting.logger import Logger
from learner.reporting.metrics_file import MetricsFile
from learner.reporting.tensorboard import TensorBoard
from learner.reporting.trackio import Trackio
from learner.reporting.wandb import Wandb

LIBRARIES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}  # by the type of logger

log = logging.getLogger(__name__)


def build_loggers(run: Run) -> list[Logger]:
    """Build every logger of `learner.loggers`, in order.

    Raises:
        RunFailed: a logger can't be built; the message names it.
        OSError: a file can't be opened.
    """
    return [_build(section, run) for section in run.learner.loggers]


def _build(section: LoggerConfig, run: Run) -> Logger:
    try:
        match section:
            case MetricsFileConfig():
                return MetricsFile(run.folder)
            case TensorBoardConfig():
                return Guarded(section.type, TensorBoard(run.folder))
            case WandbConfig():
                return Guarded(section.type, Wandb(run, section))
            case TrackioConfig():
                return Guarded(section.type, Trackio(run, section))
            case CustomLoggerConfig():
                return Guarded(section.import_path, build(section, run=run))
            case _:
                assert_never(section)
    except CustomClassError as error:
        raise RunFailed(f"learner.loggers: {error}") from error
    except Exception as error:
        if isinstance(section, MetricsFileConfig):
            raise
        raise RunFailed(f"learner.loggers: {section.type} can't begin: {error!r}") from error


def missing_loggers(run: Run) -> Iterator[str]:
    """Yield what a configured logger lacks on this machine: its library, or its key. Imports neither."""
    for place, section in enumerate(run.learner.loggers):
        library = LIBRARIES.get(section.type)
        if library is not None and importlib.util.find_spec(library) is None:
            yield f"learner.loggers: {section.type} needs {library}: pip install {library}"
        elif isinstance(section, WandbConfig) and section.mode == "online" and not _has_wandb_key():
            yield (
                "learner.loggers: wandb has no key: set WANDB_API_KEY, run `wandb login`, or set "
                f"learner.loggers.{place}.mode=offline"
            )


def _has_wandb_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        found = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        return False
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
    return host in found


class Guarded:
    """Wrap a logger whose failures must not end the run: training continues, with a warning."""

    def __init__(self, name: str, logger: Logger) -> None:
        self._name = name
        self._logger = logger
        self._said = ""

    def log(self, record: Mapping[str, Any]) -> None:
        """Pass the record to the custom logger."""
        self._try(lambda: self._logger.log(record))

    def sample(self, record: Mapping[str, Any]) -> None:
        """Pass the sample to the custom logger."""
        self._try(lambda: self._logger.sample(record))

    def close(self) -> None:
        """Close the logger."""
        self._try(self._logger.close)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - a user's code
            if repr(error) != self._said:
                self._said = repr(error)
                log.warning("logger_failed logger=%s error=%r: training goes on", self._name, error)
