"""Packages of the user's own register by entry points, without a change to vbs."""

import json
import os
import subprocess
import sys

import pytest

CODE = {
    "methods": '''
from dataclasses import dataclass
import torch
from vbs_cli.methods import METHODS, TemperatureMethod

@METHODS.register("halved", revision=3)
@dataclass(frozen=True)
class Halved(TemperatureMethod):
    """Half of every score."""
    def temperature(self, record):
        return torch.full((len(record),), 2.0, dtype=torch.float64)
''',
    "metrics": """
from vbs_cli.metrics import HIGHER, metric

@metric("mean_confidence", better=HIGHER)
def mean_confidence(s):
    return s.mean(s.confidence)
""",
    "views": '''
from dataclasses import dataclass
from vbs_cli.views import VIEWS, View

@VIEWS.register("nothing")
@dataclass(frozen=True)
class Nothing(View):
    """No view at all."""
''',
    "networks": '''
from dataclasses import dataclass
from vbs_cli.networks import NETWORKS, Network

@NETWORKS.register("other")
@dataclass(frozen=True)
class Other(Network):
    """The conventional network under another name."""
''',
    "noises": """
import torch
from vbs_cli.data import NOISES, Noise

NOISES.register("silence")(Noise(lambda shape, rng: torch.zeros(shape), lambda x, draw, level: x * (1 - level)))
""",
}


@pytest.fixture
def installed(tmp_path):
    """`installed(methods=CODE["methods"])`: the environment of a process that has such a package."""

    def install(**groups):
        info = tmp_path / "mine-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        lines = [f"[vbs_cli.{group}]\nmine = mine_{group}\n" for group in groups]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for group, code in groups.items():
            (tmp_path / f"mine_{group}.py").write_text(code)
        return {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}

    return install


def run(environment, *words, cwd=None):
    return subprocess.run([sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True)


def test_every_kind_of_thing_can_come_from_a_package_of_the_users_own(installed):
    code = """
from vbs_cli.data import NOISES
from vbs_cli.methods import METHODS
from vbs_cli.metrics import METRICS
from vbs_cli.networks import NETWORKS
from vbs_cli.views import VIEWS
found = {"halved": METHODS, "mean_confidence": METRICS, "nothing": VIEWS, "other": NETWORKS, "silence": NOISES}
assert all(name in registry for name, registry in found.items())
print(METHODS.revisions(["halved"]))
"""
    done = run(installed(**CODE), "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'method halved': 3}\n"


def test_a_method_of_the_users_own_is_calibrated_and_scored_beside_the_others(installed, workplace):
    environment = installed(methods=CODE["methods"], metrics=CODE["metrics"])
    words = ("-m", "vbs_cli", "evaluate", "--methods", "conventional,halved", "--json")
    done = run(environment, *words, cwd=workplace)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    confidence = {row["method"]: row["value"] for row in rows if row["metric"] == "mean_confidence"}
    assert confidence["halved"] < confidence["conventional"]


def test_a_package_that_fails_is_named_with_the_way_out(installed, tmp_path):
    done = run(installed(methods="import nonsense_that_is_not_there"), "-m", "vbs_cli", "status", cwd=tmp_path)
    assert done.returncode == 1
    assert "mine registers mine_methods for vbs_cli.methods, which fails" in done.stderr
    assert "pip uninstall mine" in done.stderr
    assert "Traceback" not in done.stderr
