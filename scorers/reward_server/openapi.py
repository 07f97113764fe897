"""This module describes the reward server: `/openapi.json`, made of the models in `wire`, and `/docs`, a page of it.

The page is plain HTML and loads nothing, so it can be read where there is no internet.
"""

from __future__ import annotations

import html
import json
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from scorers.reward_server.wire import (
    BatchRequest,
    BatchReward,
    LegacyRequest,
    LegacyReward,
    Ping,
    Refusal,
    Reward,
    RewardRequest,
    Unprocessable,
)

REFUSALS: Final = {
    401: "The server wants a token, and this request has none or another one.",
    408: "The head had not come within 10 seconds, or the body within 30.",
    413: "The body is larger than 32 MiB, or its length says so.",
    415: "The body is not `application/json`.",
    422: "What was sent can't be scored, now or later; `detail` says why, with the place.",
    431: "The head has more than 64 KiB, or more than 100 headers.",
    503: "It can't be scored now; `Retry-After` says in how many seconds to ask again.",
}
_MODELS: Final = (
    RewardRequest,
    BatchRequest,
    LegacyRequest,
    Reward,
    BatchReward,
    LegacyReward,
    Ping,
    Unprocessable,
    Refusal,
)
_PATHS: Final[tuple[tuple[str, str, str, tuple[type[BaseModel], ...], tuple[type[BaseModel], ...]], ...]] = (
    (
        "/reward",
        "post",
        "Score one response, or several in the older form.",
        (RewardRequest, LegacyRequest),
        (Reward, LegacyReward),
    ),
    (
        "/reward/batch",
        "post",
        "Score several responses; each has its own status. 503 where none could be scored now.",
        (BatchRequest,),
        (BatchReward,),
    ),
    ("/ping", "get", "Whether the server is there. It wants no token and waits for nobody.", (), (Ping,)),
)


def description(*, has_token: bool) -> dict[str, Any]:
    """Build the OpenAPI document."""
    _, schemas = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template="#/components/schemas/{model}"
    )
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Millrace reward server", "version": "1"},
        "paths": {
            path: {verb: _operation(summary, takes, gives)} for path, verb, summary, takes, gives in _PATHS
        },
        "components": {"schemas": schemas["$defs"]},
    }
    if has_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, verb, *_ in _PATHS:
            document["paths"][path][verb]["security"] = [] if path == "/ping" else [{"token": []}]
    return document


def page(document: dict[str, Any]) -> str:
    """Show the document as HTML."""
    sections = []
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            answers = "".join(
                f"<li><b>{status}</b> {html.escape(answer['description'])}</li>"
                for status, answer in operation["responses"].items()
            )
            sections.append(
                f"<h2>{verb.upper()} {path}</h2><p>{html.escape(operation['summary'])}</p><ul>{answers}</ul>"
            )
    schemas = "".join(
        f"<h3>{name}</h3><pre>{html.escape(json.dumps(schema, indent=2))}</pre>"
        for name, schema in document["components"]["schemas"].items()
    )
    title = html.escape(document["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
        f'<p><a href="openapi.json">openapi.json</a></p>{"".join(sections)}<h2>Schemas</h2>{schemas}</html>'
    )


def _operation(
    summary: str, takes: tuple[type[BaseModel], ...], gives: tuple[type[BaseModel], ...]
) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": summary, "responses": {"200": _answer("Done.", *gives)}}
    if takes:
        operation["requestBody"] = {"required": True, "content": _content(*takes)}
        operation["responses"] |= {
            str(status): _answer(text, Unprocessable if status == 422 else Refusal)
            for status, text in REFUSALS.items()
        }
    return operation


def _answer(text: str, *models: type[BaseModel]) -> dict[str, Any]:
    return {"description": text, "content": _content(*models)}


def _content(*models: type[BaseModel]) -> dict[str, Any]:
    refs = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}}
