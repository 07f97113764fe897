"""vLLM's own OpenAI-compatible server, what `vllm serve` runs, over the engine that a test has started already.

In: an engine, and the loop that it lives on. Out: an address on loopback, and what was said there, as the server took
and gave it. Only its front end begins here: the engine's core, the part that takes a minute to start, goes on as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import PreTrainedModel

from tests.support.byte_model import STOP_ID, VOCABULARY, random_model

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

TURN = "@"  # what the model continues: the end of every prompt
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}" + TURN
MODEL, KEY = "tiny", "planted"
SPACE = "\u0120"  # what the byte of a blank is called in a vocabulary


def num_tokens(prompt: str) -> int:
    """Of a chat of one message, whose tokens are its bytes as long as none is special."""
    return len(f"user: {prompt}\n{TURN}".encode())


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question that the server took, and what it gave back."""

    asked: dict[str, Any]
    status: int
    reply: dict[str, Any]

    @property
    def prompt(self) -> str:
        return str(self.asked["messages"][-1]["content"])

    @property
    def said(self) -> str | None:
        content: str | None = self.reply["choices"][0]["message"]["content"]
        return content

    @property
    def finish_reason(self) -> str:
        return str(self.reply["choices"][0]["finish_reason"])


class Recorder:
    """What stands before the server and writes down its chats."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.exchanges: list[Exchange] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked, said, status = bytearray(), bytearray(), 0

        async def receive_and_keep() -> Any:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def send_and_keep(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            said.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, receive_and_keep, send_and_keep)
        refused_unread = not asked  # a wrong key
        if scope.get("path") == "/v1/chat/completions" and not refused_unread:
            self.exchanges.append(Exchange(json.loads(asked), status, json.loads(said)))


@dataclass(frozen=True, slots=True)
class ModelServer:
    url: str
    recorder: Recorder

    def take(self) -> list[Exchange]:
        taken, self.recorder.exchanges = self.recorder.exchanges, []
        return taken


@contextlib.asynccontextmanager
async def serving(engine: AsyncLLM, folder: Path, reasoning_parser: str = "") -> AsyncIterator[ModelServer]:
    """Serve the engine. What runs inside must leave the loop to it, as `asyncio.to_thread` does.

    Args:
        engine: as a generator starts it.
        folder: with the tokenizer.
        reasoning_parser: vLLM's, by name: what tells thoughts from the reply.
    """
    import uvicorn
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser: Any = FlexibleArgumentParser
    args = make_arg_parser(parser()).parse_args(
        ["--model", str(folder), "--served-model-name", MODEL, "--chat-template", TEMPLATE, "--api-key", KEY]
    )
    args.structured_outputs_config.reasoning_parser = reasoning_parser
    validate_parsed_serve_args(args)
    with reading_text(engine, folder), socket.socket() as listening:
        app = build_app(args, ("generate",), engine.model_config)
        await init_app_state(engine, app.state, args, ("generate",))
        recorder = Recorder(app)
        # Without its lifespan, which would freeze the garbage of the tests' own process.
        server = uvicorn.Server(uvicorn.Config(recorder, log_level="warning", lifespan="off"))
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        app.state.server = server
        listening.bind(("127.0.0.1", 0))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield ModelServer(f"http://127.0.0.1:{listening.getsockname()[1]}", recorder)
        finally:
            server.should_exit = True
            await running


@contextlib.contextmanager
def reading_text(engine: AsyncLLM, folder: Path) -> Iterator[None]:
    """Give the engine's front end the tokenizer that a generator's has no use for."""
    from vllm.renderers import renderer_from_config

    config = copy(engine.vllm_config)
    config.model_config = copy(config.model_config)
    config.model_config.skip_tokenizer_init, config.model_config.tokenizer = False, str(folder)
    with pytest.MonkeyPatch.context() as patch:
        renderer = renderer_from_config(config)
        patch.setattr(engine, "renderer", renderer)
        patch.setattr(engine.input_processor, "renderer", renderer)
        patch.setattr(engine.output_processor, "tokenizer", renderer.tokenizer)
        for where in (engine, engine.vllm_config):
            patch.setattr(where, "model_config", config.model_config)
        try:
            yield
        finally:
            renderer.shutdown()


def parrot(text: str) -> PreTrainedModel:
    """Return a model that says one text, whatever it is asked, and stops. No character of it may come twice.

    It goes from token to token: a token has an axis of its own, an MLP turns the axis into the next one's, and the
    attention says nothing.
    """
    chain = [VOCABULARY[character] for character in (TURN + text).replace(" ", SPACE)] + [STOP_ID]
    assert len(set(chain)) == len(chain)
    model = random_model(seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        mlp = model.model.layers[0].mlp
        for axis, (token, _) in enumerate(zip(chain, [*chain[1:], None], strict=True)):
            model.model.embed_tokens.weight[token, axis] = 1.0
            mlp.gate_proj.weight[axis, axis] = mlp.up_proj.weight[axis, axis] = 1.0
            if axis + 1 < len(chain):
                mlp.down_proj.weight[axis + 1, axis] = 1.0
    return model
