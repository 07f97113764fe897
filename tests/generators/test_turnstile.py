"""Groups go in side by side, or one alone."""

from __future__ import annotations

import asyncio

from generators.turnstile import Turnstile


def test_who_goes_alone_waits_for_those_inside_and_those_behind_wait_for_it() -> None:
    said: list[str] = []

    async def visit(turnstile: Turnstile, name: str, *, alone: bool = False) -> None:
        async with turnstile.enter(alone=alone):
            said.append(f"{name} in")
            await asyncio.sleep(0.01)
            said.append(f"{name} out")

    async def body() -> None:
        turnstile = Turnstile()
        await asyncio.gather(
            visit(turnstile, "a"),
            visit(turnstile, "b"),
            visit(turnstile, "x", alone=True),
            visit(turnstile, "y", alone=True),
            visit(turnstile, "c"),
            visit(turnstile, "d"),
        )

    asyncio.run(body())
    assert said == [
        "a in",
        "b in",
        "a out",
        "b out",
        "x in",
        "x out",
        "y in",
        "y out",
        "c in",
        "d in",
        "c out",
        "d out",
    ]


def test_who_fails_or_gives_up_waiting_leaves_the_way_free() -> None:
    async def body() -> None:
        turnstile = Turnstile()
        for alone in (False, True):
            try:
                async with turnstile.enter(alone=alone):
                    raise ValueError
            except ValueError:
                pass
        async with turnstile.enter(alone=False):
            waiting = asyncio.create_task(turnstile.enter(alone=True).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            async with asyncio.timeout(5), turnstile.enter(alone=False):
                pass
        async with asyncio.timeout(5), turnstile.enter(alone=True):
            pass

    asyncio.run(body())


def test_nobody_goes_in_once_it_is_shut() -> None:
    async def body() -> None:
        turnstile = Turnstile()
        went_in: list[bool] = []

        async def visit(*, alone: bool) -> None:
            async with turnstile.enter(alone=alone):
                went_in.append(alone)

        waiting: list[asyncio.Task[None]] = []
        async with turnstile.enter(alone=True):
            waiting += [asyncio.create_task(visit(alone=alone)) for alone in (True, False)]
            await asyncio.sleep(0)
            turnstile.shut()
        waiting.append(asyncio.create_task(visit(alone=False)))
        await asyncio.sleep(0.02)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=5)
        assert went_in == []

    asyncio.run(body())
