"""Draw the histogram of pass rates: one panel per model.

In: the histogram of each model. Out: a PNG, the same bytes for the same counts. Used by `millrace difficulty`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker.errors import PipelineError
from learner.reporting.curves import BLUE, GREY, INK, STYLE
from tools.difficulty.rates import RateSummary


def draw(path: Path, summaries: Mapping[str, RateSummary]) -> None:
    """Draw the histograms to a temporary file, and rename it to `path` when complete. Raises PipelineError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    aside = path.with_name(f"{path.name}.new")
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            len(summaries), 1, figsize=(8, 3 * len(summaries)), layout="constrained", squeeze=False
        )
        for axes, (name, summary) in zip(panels[:, 0], summaries.items(), strict=True):
            labels, counts = zip(*summary.histogram.bars, strict=True)
            bars = axes.bar(labels, counts, color=[GREY, *[BLUE] * (len(labels) - 2), GREY])
            axes.bar_label(
                bars, labels=[f"{count:,}" if count else "" for count in counts], color=INK, fontsize=8
            )
            mean = "no row has a rate" if summary.mean is None else f"mean {summary.mean:.3f}"
            missing = f", {summary.without_rate:,} without a rate" if summary.without_rate else ""
            axes.set_title(f"{name}: {summary.rows:,} rows, {mean}{missing}")
            axes.yaxis.get_major_locator().set_params(integer=True)
            axes.set_ylabel("rows")
            axes.set_xlabel("pass rate")
        try:
            figure.savefig(aside, format="png", dpi=120, metadata={"Software": None})
            aside.rename(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise PipelineError(f"{path} can't be written: {error.strerror or error}") from error
        finally:
            plt.close(figure)
