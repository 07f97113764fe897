"""How near an edit comes to the reference's: what the scoring child of `scorers.swe.scorer` does.

In: a request. For every file that the answer or the reference changes, the request has the text before, after the
answer and after the reference, or the two changes themselves. Out: a reply with the mean similarity, the value of the
emptiest edit at the reference's places, and the first Python file that the answer has broken. Works on a model's text,
so it runs in the child only. Its time is bounded by the limits on its texts, and by the child's deadline.

The value of a file is difflib's ratio of the two changes, character by character; one that only one side changes counts
0, and all files weigh the same. Source: SWE-RL, arXiv:2502.18449, sec. 2.2.
"""

from __future__ import annotations

import ast
import warnings
from typing import Final

from scorers.child.process import Reply, Request
from scorers.swe.diff import no_op
from scorers.swe.similarity import ratio, unified_diff

MAX_DIFF_CHARS: Final = (
    200_000  # of one side's changes in all files; a hostile text of this size takes seconds
)


def compare(request: Request) -> Reply:
    """Judge one answer, in the child.

    Args:
        request: `files`, a list of [path, before, after the answer, after the reference], None where a side has no such
            file or leaves it as it is; or `changes`, a list of [of the answer, of the reference], "" where a side has
            none. `floor` and `syntax`: whether they are wanted.
    Returns: `size` and `reference_size`, characters of the changes; `value`, in [0, 1]; `floor`, in [0, 1], of the
        emptiest edit; `broken`, the path of a Python file that can't be parsed any more and why, or None. Without
        `value` where one of the sizes is over the limit.
    """
    if "files" in request:
        changes = [
            (_change(before, after), _change(before, wanted)) for _, before, after, wanted in request["files"]
        ]
    else:
        changes = [(mine, wanted) for mine, wanted in request["changes"]]
    changes = [pair for pair in changes if any(pair)]
    reply: Reply = {
        "size": sum(len(mine) for mine, _ in changes),
        "reference_size": sum(len(wanted) for _, wanted in changes),
    }
    if max(reply.values()) > MAX_DIFF_CHARS:
        return reply
    reply["value"] = _mean([similarity(mine, wanted) for mine, wanted in changes])
    if request["floor"]:
        reply["floor"] = _mean([similarity(no_op(wanted), wanted) for _, wanted in changes if wanted])
    reply["broken"] = None
    if request["syntax"]:
        reply["broken"] = next(
            (
                f"{path or 'the file'}: {problem}"
                for path, before, after, wanted in request.get("files", ())
                if (problem := _breakage(path, before, after, wanted)) is not None
            ),
            None,
        )
    return reply


def similarity(mine: str, wanted: str) -> float:
    """Return the ratio of two changes; 0 where one of them is empty, both too: nothing done is worth nothing."""
    return ratio(mine, wanted) if mine and wanted else 0.0


def _change(before: str | None, after: str | None) -> str:
    return "" if after is None else unified_diff(before or "", after)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _breakage(path: str, before: str | None, after: str | None, wanted: str | None) -> str | None:
    """Return why Python can't parse what it could parse before; None where it can, or never could.

    A file without a name is Python's where both its versions in the row are.
    """
    if after is None or (path and not path.endswith((".py", ".pyi"))):
        return None
    if _syntax_error(before or "") is not None or (not path and _syntax_error(wanted or "") is not None):
        return None
    return _syntax_error(after)


def _syntax_error(source: str) -> str | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(source)
    except SyntaxError as error:
        return f"{error.msg} in line {error.lineno}"
    except (
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # a null byte, a lone surrogate; nested too deeply
        return f"{type(error).__name__}: {error}"
    return None
