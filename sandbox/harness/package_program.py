"""C's side of a whole package: the files as the answer leaves them, on disk and importable.

In: path -> text. Out: `load_module`, by which T comes to the package's modules. Runs as the answer does, in C, where
neither the tests nor the nonce are; the row's tests are not among the files.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def install(files: dict[str, str], roots: list[str]) -> None:
    """Write the files into the working folder, and let imports find them."""
    for path, text in files.items():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8", "surrogatepass"))
    sys.path[:0] = [str(Path.cwd() / root) for root in roots]


load_module = importlib.import_module
