"""Prepare simulation: predict the output of a program, or its input.

In: records of CodeI/O and CRUXEval. Out: drafts whose answer is JSON, or an assertion. The program is in
`extra_info.refcode`: a predicted input is right if the program, in the sandbox, gives the shown output. Nothing is run
here. Called by `tools.prepare.stages`.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Final

from tools.prepare.preparation import (
    LIST,
    MAYBE_TEXT,
    TEXT,
    BadRecord,
    Draft,
    Filter,
    Hub,
    Preparation,
    Record,
    Split,
    tokens_below,
)

_MOST_RECORDS: Final = 200_000  # Reasoning360's limit for CodeI/O
_CODE: Final = "This program solves it. Follow it in your head; do not repeat it:"
_FORMS: Final = {
    "output": 'Which output does it have? Write it as JSON in a code block that begins with ```json: {"output": ...}.',
    "input": (
        "Which input could it have been given? Write one as JSON in a code block that begins with ```json: "
        '{"input": {...}}, an object with the names of all input variables, also where there is only one.'
    ),
}


def codeio(record: Record, draw: random.Random) -> Draft:
    """Return the draft of a program of CodeI/O: it asks at random for the output or the input of its first pair."""
    pair = record["ios"][0]
    if not isinstance(pair, dict) or not {"input", "output"} <= pair.keys():
        raise BadRecord(f", column ios: pairs of input and output are wanted, got {pair!r:.80}")
    asked, given = draw.choice((("output", "input"), ("input", "output")))
    code = record["refcode"].strip("\n")
    parts = (
        record["problem_description"].strip(),
        f"Input and output:\n{record['io_requirements'].strip()}",
        f"The {given} is:\n{json.dumps(pair[given])}",
        f"{_CODE}\n```python\n{code}\n```",
        _FORMS[asked],
    )
    named = {"funcname": record["funcname"]} if record.get("funcname") else {}
    return Draft(
        prompt="\n\n".join(parts),
        ground_truth=f'"{asked}": {json.dumps(pair[asked])}',
        extra={"refcode": code, **named},
    )


def cruxeval_input(record: Record, _: random.Random) -> Draft:
    """Return the draft that asks for an input of CRUXEval's function."""
    return _cruxeval(
        record,
        "cruxeval-i",
        f"assert f(??) == {record['output']}",
        "Find an input for which this assertion holds; there may be several. Reason first, and end with the complete "
        "assertion, with your input in the place of ?? and the output as it stands, in a Python code block.",
    )


def cruxeval_output(record: Record, _: random.Random) -> Draft:
    """Return the draft that asks for the output of CRUXEval's function."""
    return _cruxeval(
        record,
        "cruxeval-o",
        f"assert f({record['input']}) == ??",
        "Complete this assertion with the value that the function returns, as a literal and without a call. Reason "
        "first, and end with the complete assertion in a Python code block.",
    )


def _cruxeval(record: Record, dataset: str, assertion: str, asked: str) -> Draft:
    code = record["code"].strip()
    return Draft(
        prompt=f"{asked}\n\n```python\n{code}\n{assertion}\n```\n",
        ground_truth=json.dumps({"functional": code}),
        extra={"reference": record["output"], "dataset": dataset, "task_id": record["id"]},
    )


_CRUXEVAL: Final = Preparation(
    name="cruxeval-i",
    domain="simulation",
    about="CRUXEval: which input gives this output?",
    source=Hub(path="cruxeval-org/cruxeval"),
    columns={"id": TEXT, "code": TEXT, "input": TEXT, "output": TEXT},
    row=cruxeval_input,
    data_source="simulation__cruxeval-i",
    ability="simulation",
    repeats=("original_prompt",),
    splits={"test": Split(source="test")},
    licence="MIT",
)

PREPARATIONS: Final = (
    Preparation(
        name="codeio",
        domain="simulation",
        about="programs of CodeI/O: foretell an output, or an input",
        source=Hub(path="hkust-nlp/CodeIO-PyEdu-Reasoning-Raw", file="0_368500_filtered_v2_ds25.sced.jsonl"),
        columns={
            "problem_description": TEXT,
            "io_requirements": TEXT,
            "refcode": TEXT,
            "funcname": MAYBE_TEXT,
            "ios": LIST,
        },
        row=codeio,
        data_source="simulation__codeio",
        ability="coding-inference",
        splits={
            "train": Split(head=_MOST_RECORDS, share=(0.0, 0.1)),
            "test": Split(head=_MOST_RECORDS, share=(0.1, 1.0), size=200),
        },
        filters=(Filter(name="has an input and an output", keeps=lambda record: bool(record["ios"])),),
        max_prompt_tokens=tokens_below(2048),
    ),
    _CRUXEVAL,
    replace(
        _CRUXEVAL,
        name="cruxeval-o",
        about="CRUXEval: which output does this input have?",
        row=cruxeval_output,
        data_source="simulation__cruxeval-o",
    ),
)
