"""Section of the filters, which choose the groups that train."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from config.section import Section


class FiltersConfig(Section):
    """Choose which groups train."""

    zero_variance: Literal["replace", "keep"] = "replace"
    """`replace`: drop a group whose rewards are all equal, and give its slot to another prompt. `keep`: let it train,
    with a gradient of zero. As many groups are issued as steps are likely to need by the share that trained lately.
    What a step leaves beyond what can train in time is dropped as `surplus`; what the last step leaves is dropped as
    `over`, and comes first where the run gets more steps."""
    pass_rate: tuple[float, float] = (0.0, 1.0)
    """Drop a group whose mean score is outside this range (bounds included), and give its slot to another prompt.
    [0, 0.9] leaves out prompts that the policy has solved."""
    max_replaced: int | None = Field(None, ge=0)
    """Replace at most this many groups before a step. Later ones train, with a gradient of zero where their rewards are
    all equal. Unset: no limit."""
    max_empty_groups: int = Field(2000, ge=1)
    """End the run, with the reason, after this many groups in a row were dropped for their rewards."""
    truncated: Literal["mask", "keep"] | None = None
    """`mask`: count a completion that was cut at `max_tokens` in the baseline but not in the loss. `keep`: train on it
    like on others. Unset: `mask` for single-turn answers and `keep` for episodes. Episodes are cut by a turn's
    `max_tokens`, by turns, context and deadlines, and a policy that can bring a cut about must not escape its
    penalty."""

    @field_validator("pass_rate")
    @classmethod
    def _is_range(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        low, high = bounds
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"bounds [low, high] of a pass rate need 0 <= low < high <= 1, got [{low}, {high}]"
            )
        return bounds
