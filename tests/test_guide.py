"""The guide's tables name what there is."""

import re
from pathlib import Path

import vbs_cli
from vbs_cli.data import NOISES, SUITES
from vbs_cli.data.noise import ANY, join_kinds

GUIDE = Path(vbs_cli.__file__).parent / "guide"
ROW = re.compile(r"^\| `(?P<name>[\w-]+)` \| (?P<family>\w+) \| (?P<inputs>[\w ]+) \| (?P<what>.+) \|$", re.MULTILINE)


def test_the_page_on_shift_lists_every_noise_with_its_family_and_inputs():
    text = (GUIDE / "shift.md").read_text(encoding="utf-8")
    found = {row["name"]: (row["family"], row["inputs"]) for row in ROW.finditer(text)}
    kinds = {name: "any" if set(noise.kinds) == set(ANY) else join_kinds(noise.kinds) for name, noise in NOISES.items()}
    assert found == {name: (noise.family, kinds[name]) for name, noise in NOISES.items()}
    assert all(f"--suite {suite}" in text for suite in SUITES)
