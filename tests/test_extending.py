"""The examples of the guide for contributors are written into their folders, one file each, and run."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vbs_cli

PACKAGE = Path(vbs_cli.__file__).parent
PAGE = (PACKAGE / "guide" / "extending.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"```python\n# (?P<path>vbs_cli/\S+)\n(?P<code>.*?)```\n\n```\n(?P<command>vbs .*?)\n```", re.DOTALL
)
EXAMPLES = {found["path"]: found for found in EXAMPLE.finditer(PAGE)}


@pytest.fixture
def fork(workplace):
    """A copy of the package beside a finished run, and a way to run a module of it."""
    shutil.copytree(PACKAGE, workplace / "fork" / "vbs_cli", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(workplace / "fork"), "OMP_NUM_THREADS": "1", "VBS_DEVICE": "cpu"}

    def run(*words):
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=workplace, env=environment, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_extension_is_one_file_and_its_command_works(fork, workplace, path):
    target = workplace / "fork" / path
    assert target.parent.is_dir()
    assert not target.exists()
    target.write_text(EXAMPLES[path]["code"].lstrip("\n"))
    *first, last = [shlex.split(line)[1:] for line in EXAMPLES[path]["command"].splitlines()]
    for words in (*first, [*last, "--json"]):
        done = fork("vbs_cli", *words)
        assert done.returncode == 0, done.stderr
    assert target.stem in done.stdout


def test_there_is_an_example_of_everything_that_people_add_most():
    kinds = {Path(path).parent.name for path in EXAMPLES}
    assert kinds == {"methods", "metrics", "data", "noises", "views", "networks"}
    assert len(EXAMPLES) == 7


def test_examples_are_written_as_the_package_is(tmp_path):
    for path, found in EXAMPLES.items():
        (tmp_path / Path(path).name).write_text(found["code"].lstrip("\n"))
    options = ["--isolated", "--line-length", "120", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "ruff", "format", "--check", *options], capture_output=True, text=True)
    if "No module named ruff" in done.stderr:
        pytest.skip("ruff is not installed")
    assert done.returncode == 0, done.stdout
