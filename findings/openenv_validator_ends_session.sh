#!/usr/bin/env bash
# openenv 0.10.0: an action that the environment's own validator refuses ends the session over the WebSocket.
# Seen: an action with a field that pydantic's schema refuses (an empty text under min_length=1) is answered with
# VALIDATION_ERROR, and the session goes on. One that a `field_validator` refuses by ValueError, as pydantic's pages
# have it, is answered with SESSION_ERROR, "Unable to serialize unknown type: <class 'ValueError'>", and the socket is
# closed: pydantic keeps the exception in `ctx` of the error, which the server puts into its answer as it is. So a
# policy that says one such action loses its episode, and never reads why.
# Right: VALIDATION_ERROR for both, by `errors(include_context=False)`.
set -euo pipefail
folder=$(mktemp -d)
trap '[ -z "${server:-}" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'openenv==0.10.0'
cat >"$folder/game.py" <<'PYTHON'
import asyncio
import json
import sys

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from pydantic import Field, field_validator
from websockets.asyncio.client import connect


class Word(Action):
    word: str = Field(min_length=1)

    @field_validator("word")
    @classmethod
    def is_lower(cls, word: str) -> str:
        if not word.islower():
            raise ValueError("write it in small letters")
        return word


class Game(Environment):
    def reset(self, seed=None, episode_id=None, **options):
        return Observation()

    def step(self, action, timeout_s=None, **options):
        return Observation(reward=1.0)

    @property
    def state(self):
        return State()


async def play(port: str) -> None:
    async with connect(f"ws://127.0.0.1:{port}/ws") as socket:
        for data in ({"word": ""}, {"word": "tea"}, {"word": "TEA"}):
            await socket.send(json.dumps({"type": "step", "data": data}))
            answer = json.loads(await asyncio.wait_for(socket.recv(), 60))
            told = {key: answer["data"].get(key) for key in ("code", "message", "reward")}
            print(data, {key: one for key, one in told.items() if one is not None})
        try:
            await asyncio.wait_for(socket.recv(), 60)
        except Exception as error:
            print(type(error).__name__)


if sys.argv[1] == "serve":
    uvicorn.run(create_app(Game, Word, Observation), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
else:
    asyncio.run(play(sys.argv[2]))
PYTHON
port=$("$folder/venv/bin/python" -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
"$folder/venv/bin/python" "$folder/game.py" serve "$port" &
server=$!
for _ in $(seq 120); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 1
done
"$folder/venv/bin/python" "$folder/game.py" play "$port" | tee "$folder/said"
diff "$folder/said" - <<'SEEN'
{'word': ''} {'code': 'VALIDATION_ERROR', 'message': 'Invalid message'}
{'word': 'tea'} {'reward': 1.0}
{'word': 'TEA'} {'code': 'SESSION_ERROR', 'message': "Unable to serialize unknown type: <class 'ValueError'>"}
ConnectionClosedOK
SEEN
