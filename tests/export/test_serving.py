"""The server of the README, as it stands there: onnxruntime and numpy alone, in a process of its own."""

import http.client
import io
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.jobs import job_in, wait_for
from vbs_cli.export import FORMATS
from vbs_cli.stages.export import ExportChoice, export

README = Path(__file__).parents[2] / "README.md"


def the_code():
    section = README.read_text(encoding="utf-8").split("## Take it to where it runs")[1]
    (code,) = re.findall(r"`serve\.py`:\n\n```python\n(.*?)```", section, flags=re.DOTALL)
    return code


@pytest.fixture
def served(workplace):
    """The job whose network is served, and a function that posts bytes to the server."""
    for library in FORMATS["onnx"].libraries:
        pytest.importorskip(library)
    job = job_in(workplace)
    row = export(job, ExportChoice("onnx"))
    (workplace / "serve.py").write_text(the_code(), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "serve.py", row["artifact"], str(port)]
    server = subprocess.Popen(command, cwd=workplace, stderr=subprocess.DEVNULL)

    def listens():
        assert server.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def post(body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/", body)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())

    try:
        wait_for(listens)
        yield job, post
    finally:
        server.kill()
        server.wait()


def test_the_server_of_the_readme_answers_with_what_the_run_evaluates(served):
    job, post = served
    x = job.data.split("test").inputs(slice(0, 5)).numpy()
    file = io.BytesIO()
    np.save(file, x)
    status, answer = post(file.getvalue())
    assert status == 200
    record, method = job.run.logits(0), job.run.methods[0]["vbs"]
    np.testing.assert_allclose(answer["probabilities"], method.predict_proba(record)[:5], atol=1e-5)
    np.testing.assert_allclose(answer["temperature"], method.temperature(record)[:5], rtol=1e-5)
    np.testing.assert_allclose(answer["sigma"], record.sigma[:5], rtol=1e-5)
    as_json = json.dumps(x.tolist()).encode()
    assert post(as_json) == (200, answer)
    assert post(as_json[:-1])[0] == 400
    assert "error" in post(b"[1, 2]")[1]
    assert post(as_json) == (200, answer)


def test_the_server_needs_no_more_than_it_says():
    named = set(re.findall(r"^(?:import|from) (\w+)", the_code(), flags=re.MULTILINE))
    assert named - sys.stdlib_module_names == {"numpy", "onnxruntime"}
    assert len([line for line in the_code().splitlines() if line.strip()]) <= 25
