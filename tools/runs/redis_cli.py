"""`millrace redis-cli RUN [args ...]`: run redis-cli on the Redis of a run.

In: a run's name. Out: redis-cli's exit code. A stopped private server is started meanwhile. The password is passed in
the environment, not on the command line, where other users could read it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from redis.connection import SSLConnection, parse_url

from broker.connection import check_url
from broker.errors import WrongBroker
from broker.private_redis import server
from tools.arguments import add_run, add_runs_dir

TLS_OPTIONS = {
    "ssl_ca_certs": "--cacert",
    "ssl_ca_path": "--cacertdir",
    "ssl_certfile": "--cert",
    "ssl_keyfile": "--key",
}
HANDS_ON = True  # everything after the run's name is redis-cli's


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `millrace redis-cli`; everything after the run's name is redis-cli's."""
    add_runs_dir(parser)
    add_run(parser)
    parser.add_argument("args", nargs=argparse.REMAINDER, help="as for redis-cli; none opens its prompt")


def run(options: argparse.Namespace) -> int:
    """Run redis-cli on the Redis of a run. Raises WrongBroker."""
    return redis_cli(options.run, options.runs_dir, options.args)


def redis_cli(name: str, runs_dir: Path, args: Sequence[str]) -> int:
    """Run redis-cli with `args`, or its prompt without any.

    Raises:
        WrongBroker: no Redis is known for that run, or it can't be started, or REDIS_URL is invalid, or it needs TLS
            and redis-cli has none.
    """
    with server.ensure_readable(name, runs_dir) as url:
        check_url(url)
        options, password = options_of(url)
        program = _with_tls() if "--tls" in options else _any_program()
        before = signal.signal(signal.SIGINT, lambda _number, _frame: None)  # Ctrl-C is for its prompt
        try:
            own = {"REDISCLI_AUTH": password} if password else {}  # an empty one would be sent, and refused
            return subprocess.run(
                [program, *options, *args], check=False, env={**os.environ, **own}
            ).returncode
        finally:
            signal.signal(signal.SIGINT, before)


def options_of(url: str) -> tuple[list[str], str]:
    """Return redis-cli's options for `url`, and the password separately."""
    parts = parse_url(url)
    if "path" in parts:
        options = ["-s", parts["path"]]
    else:
        options = ["-h", parts.get("host", "localhost"), "-p", str(parts.get("port", 6379))]
    if parts.get("db"):
        options += ["-n", str(parts["db"])]
    if parts.get("username"):
        options += ["--user", parts["username"]]
    if parts.get("connection_class") is SSLConnection:
        options.append("--tls")
        if parts.get("ssl_cert_reqs") == "none":
            options.append("--insecure")
    for setting, option in TLS_OPTIONS.items():
        if parts.get(setting):
            options += [option, parts[setting]]
    return options, parts.get("password") or ""


def _any_program() -> str:
    return shutil.which("redis-cli") or str(server.carried("redis-cli"))


def _with_tls() -> str:
    """Return the first redis-cli with TLS: an environment's, which comes with the wheel, has none.

    Raises:
        WrongBroker: there is none.
    """
    folders = [Path(folder) for folder in os.get_exec_path()]
    for program in [folder / "redis-cli" for folder in folders if (folder / "redis-cli").is_file()]:
        if not subprocess.run([program, "--tls", "--version"], check=False, capture_output=True).returncode:
            return str(program)
    raise WrongBroker(
        f"{_any_program()} is built without TLS, which REDIS_URL asks for: apt-get install redis-tools brings another"
    )
