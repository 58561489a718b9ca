"""The programs in docs/start/python.md and the example run, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "start" / "python.md"
TUTTI_RUN = os.path.join(os.environ.get("TUTTI_BIN", ""), "tutti-run")
BLOCKS = re.findall(r"^```python( run)?\n(.*?)^```$", PAGE.read_text(), re.S | re.M)


def run(*arguments, ranks=2):
    if not os.path.exists(TUTTI_RUN):
        pytest.skip("tutti-run is not here")
    ended = subprocess.run(
        [TUTTI_RUN, "-n", str(ranks), sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=30,
        env={**os.environ, "TUTTI_TIMEOUT": "10s"},
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_the_page_has_programs():
    assert len(BLOCKS) >= 10


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"program {i}") for i, (is_run, block) in enumerate(BLOCKS) if is_run]
)
def test_programs_on_the_page_run(block, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(block)
    run(str(program))


def test_the_example_runs():
    printed = run(str(ROOT / "examples" / "numpy_allreduce.py"), ranks=4)
    assert printed.count("average 1.5, worst loss 1, ranks [0 1 2 3]") == 4


def test_the_example_of_a_parameter_server_has_the_bits_of_its_twin():
    printed = run(str(ROOT / "examples" / "embeddings.py"), "--steps", "40", ranks=3)
    assert printed.count("the twin without servers has the same bits") == 2
