"""The programs in docs/python.md and the example run, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import needs

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "python.md"
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


# What programs on the page need that an older library may lack, by a word in them.
NEEDS = {
    "tutti.group()": needs("tutti_group_end"),
    "comm.send(": needs("tutti_send_with"),
    ".mesh(": needs("tutti_mesh_create"),
}


def marked(number, block):
    marks = [mark for word, mark in NEEDS.items() if word in block]
    return pytest.param(block, id=f"program {number}", marks=marks)


@pytest.mark.parametrize(
    "block", [marked(i, block) for i, (is_run, block) in enumerate(BLOCKS) if is_run]
)
def test_programs_on_the_page_run(block, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(block)
    run(str(program))


def test_the_example_runs():
    printed = run(str(ROOT / "examples" / "numpy_allreduce.py"), ranks=4)
    assert printed.count("average 1.5, worst loss 1, ranks [0 1 2 3]") == 4
