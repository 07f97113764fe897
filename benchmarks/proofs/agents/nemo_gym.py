"""NeMo Gym: the package's own example servers, of `gymnasium_agent` and of `simple_agent`."""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.proofs.agents.player import calls
from benchmarks.proofs.agents.stage import KindStage
from broker.messages import Turn

SERVER = """
import importlib
import sys

import uvicorn
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

module, name, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = getattr(importlib.import_module(f"resources_servers.{module}.app"), name)
config = server.model_fields["config"].annotation(host="127.0.0.1", port=port, entrypoint="app.py", name=module)
here = BaseServerConfig(host="127.0.0.1", port=port)
client = ServerClient(head_server_config=here, global_config_dict=OmegaConf.create({}))
uvicorn.run(server(config=config, server_client=client).setup_webserver(), host="127.0.0.1", port=port)
"""
ROWS = """
import importlib.util
import pathlib
import sys

folder = pathlib.Path(importlib.util.find_spec(f"resources_servers.{sys.argv[1]}.app").origin).parent
print(folder.joinpath("data", "example.jsonl").read_text().splitlines()[0])
"""


def nemo_gym(stage: KindStage) -> None:
    """Play the package's own example servers with the rows that it ships for them."""
    program = stage.file("server.py", SERVER)
    _tools(stage, program.name)
    row = _row(stage, "blackjack")
    with (
        stage.serves(program.name, "blackjack", "BlackjackEnv", "{port}", python=stage.others["server"]) as (
            port,
            kill,
        ),
        stage.plays(
            {
                "type": "nemo_gym",
                "url": f"http://127.0.0.1:{port}",
                "reward_range": [-1, 1],
                "reset_deadline_s": 3,
            }
        ) as player,
    ):
        stands = player.run("<action>stand</action>", row=row)
        hits = player.run(*["<action>hit</action>"] * 12, row=row)
        kill()
        away = player.run("<action>stand</action>", row=row)
    stage.holds(
        "gymnasium_agent's servers are known by their routes, and begin with what the server says",
        re.fullmatch(r"Your hand: [^\n]+\nDealer shows: \w+\n.*", stands.read(0)[-1]) is not None,
        stands.reward in (-1.0, 0.0, 1.0),
    )
    stage.holds(
        "steps go on until the server ends them",
        hits.reward == -1.0,
        1 <= len(hits.asked) <= 11,
        all("Your hand" in hits.read(place)[-1] for place in range(len(hits.asked))),
    )
    stage.holds(
        "a server that is away is waited for, and named",
        away.failed("reset", "in reset_deadline_s=3", is_policys=False),
    )


def _tools(stage: KindStage, program: str) -> None:
    """Play a server with tools and `/verify`."""
    name, row = "example_multi_step", _row(stage, "example_multi_step")
    given = row["row"]
    asks: list[Turn] = [calls(("get_synonym_value", {"synonym": one})) for one in given["expected_synonyms"]]
    says = calls(("extract_synonym_values", {"synonym_values": given["expected_synonym_values"]}))
    with (
        stage.serves(
            program, name, "ExampleMultiStepResourcesServer", "{port}", python=stage.others["server"]
        ) as (port, _),
        stage.plays({"type": "nemo_gym", "url": f"http://127.0.0.1:{port}"}) as player,
    ):
        right = player.run(*asks, says, "Done.", row=row)
        wrong = player.run(calls(("get_synonym_value", {}), ("verify", {})), "Done.", row=row)
    values = [json.loads(right.read(place)[-1])["synonym_value"] for place in range(1, len(asks) + 1)]
    stage.holds(
        "simple_agent's servers: tools are posts, and the whole is verified",
        values == given["expected_synonym_values"],
        right.reward == 1.0,
    )
    stage.holds(
        "what a tool refuses, and a tool that there is not, are the policy's to read",
        "Field required" in wrong.read(1)[-2],
        "there is no tool 'verify'" in wrong.read(1)[-1],
        wrong.reward == 0.0,
    )


def _row(stage: KindStage, name: str) -> dict[str, Any]:
    """Return the first example of a server, as a row has it."""
    return {"row": json.loads(stage.prints("rows.py", ROWS, name, python=stage.others["server"]))}
