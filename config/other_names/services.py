"""The services that the environment names for rows that are scored without a run: a judge, and a sandbox's servers.

In: the environment of this process. Out: an endpoint's section, and addresses. Called by `scorers.api`, whose process
loads nothing of a run for it.
"""

from __future__ import annotations

import os

from config.endpoint import EndpointConfig
from config.other_names.aliases import endpoint_settings, sandbox_servers


def sandbox_urls() -> tuple[str, ...]:
    """Return the sandbox's servers, see `config.other_names.aliases.sandbox_servers`. Raises ConfigError."""
    return sandbox_servers(os.environ)


def judge_endpoint(variant: str = "default", url: str | None = None) -> EndpointConfig:
    """Return the judge of II-Thought's and Reasoning360's environment variables; `url` takes precedence."""
    said = {key: value for key, (value, _) in endpoint_settings(os.environ, variant).items()}
    return EndpointConfig.model_validate(said if url is None else said | {"urls": [url]})
