"""Groups go in side by side, or one alone."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from generators.exclusive_gate import ExclusiveGate
from tests.support.in_loop import in_loop


@in_loop
async def test_who_goes_alone_waits_for_those_inside_and_those_behind_wait_for_it() -> None:
    gate, said = ExclusiveGate(), list[str]()

    async def visit(name: str) -> None:
        async with gate.enter(alone=name in "xy"):
            said.append(f"+{name}")
            await asyncio.sleep(0.01)
            said.append(f"-{name}")

    await asyncio.gather(*map(visit, "abxycd"))
    assert " ".join(said) == "+a +b -a -b +x -x +y -y +c +d -c -d"


@in_loop
async def test_who_fails_or_gives_up_waiting_leaves_the_way_free() -> None:
    gate = ExclusiveGate()
    for alone in (False, True):
        with suppress(ValueError):
            async with gate.enter(alone=alone):
                raise ValueError
    async with gate.enter(alone=False):
        waiting = asyncio.create_task(gate.enter(alone=True).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(5), gate.enter(alone=False):
            pass
    async with asyncio.timeout(5), gate.enter(alone=True):
        pass


@in_loop
async def test_nobody_goes_in_once_it_is_shut() -> None:
    gate, went_in = ExclusiveGate(), list[bool]()

    async def visit(*, alone: bool) -> None:
        async with gate.enter(alone=alone):
            went_in.append(alone)

    async with gate.enter(alone=True):
        waiting = [asyncio.create_task(visit(alone=alone)) for alone in (True, False)]
        await asyncio.sleep(0)
        gate.shut()
    waiting.append(asyncio.create_task(visit(alone=False)))
    await asyncio.sleep(0.02)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting, timeout=5)
    assert went_in == []
