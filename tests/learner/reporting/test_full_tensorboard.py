"""TensorBoard's event files on a full disk: the logger says so, and holds no process up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.full_volume import mounted
from tests.support.paths import ROOT

pytestmark = pytest.mark.process

# argv: the folder, on a volume of its own.
PROGRAM = """
import sys
from pathlib import Path
from learner.reporting.tensorboard import TensorBoard
folder = Path(sys.argv[1])
logger = TensorBoard(folder)
logger.log({"step": 1, "reward_mean": 0.5})
with open(folder / "ballast", "wb", buffering=0) as ballast:
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                ballast.write(bytes(size))
        except OSError:
            pass
said = ""
for step in range(2, 2000):
    try:
        logger.log({"step": step, **{f"number_{index}": 0.5 for index in range(20)},
                    "histograms": {"tokens": {"edges": list(range(1, 50)), "counts": [1] * 50}}})
    except OSError as error:
        said = str(error)
        break
try:
    logger.close()
except OSError as error:
    said += f" | {error}"
print(said)
"""


@pytest.mark.prove
def test_a_full_disk_is_said_by_the_next_step_and_the_process_ends(tmp_path: Path) -> None:
    with mounted(tmp_path / "full", size_mb=1) as volume:
        done = subprocess.run(
            [*volume.inside, f"--wd={ROOT}", sys.executable, "-c", PROGRAM, str(tmp_path / "full")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout
    assert "Exception in thread" not in done.stderr
