"""Define the options that replace the policy by a model elsewhere, and read them.

In: a parser, or parsed options. Out: the address, and the key from an environment variable. Invalid values are a
UsageError. Used by `millrace agent` and `millrace evaluate`.
"""

from __future__ import annotations

import argparse
import os

from pydantic import SecretStr, TypeAdapter, ValidationError

from config.endpoint import ServerAddress
from config.logs import KEY_SUFFIX
from tools.arguments import UsageError


def add_endpoint(parser: argparse.ArgumentParser, does: str) -> None:
    """Add --endpoint and --key-variable: a model elsewhere for the verb."""
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help=f"let a model behind OpenAI's chat API {does}, at http://HOST:PORT/v1",
    )
    parser.add_argument(
        "--key-variable",
        metavar="VARIABLE",
        help=f"with --endpoint: the variable, ...{KEY_SUFFIX}, of its key",
    )


def endpoint_of(options: argparse.Namespace) -> tuple[str, SecretStr | None]:
    """Return the address of --endpoint, and its key. Raises UsageError."""
    try:
        url = TypeAdapter(ServerAddress).validate_python(options.endpoint)
    except ValidationError as error:
        raise UsageError(f"--endpoint: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    return url, _key(options.key_variable)


def _key(variable: str | None) -> SecretStr | None:
    """Return the key in an environment variable. Raises UsageError."""
    if variable is None:
        return None
    if not variable.endswith(KEY_SUFFIX):
        raise UsageError(
            f"--key-variable {variable}: a variable whose name ends with {KEY_SUFFIX}, which is kept from "
            "logs and from the agents' children"
        )
    if not (found := os.environ.get(variable)):
        raise UsageError(f"--key-variable {variable}: the variable is not set")
    return SecretStr(found)
