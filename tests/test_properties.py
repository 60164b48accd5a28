"""What holds for every method and every record, whatever its size and scale."""

import json
import math
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vbs_cli import Logits, VarianceSmoothing, score, sigma_bar
from vbs_cli.methods import METHODS, TemperatureMethod

TEMPERATURES = [name for name, method in METHODS.items() if issubclass(method, TemperatureMethod)]
few = settings(max_examples=20, deadline=None)
every_method = pytest.mark.parametrize("name", list(METHODS))


@st.composite
def patches(draw, scales=(1e-3, 1e3)):
    """Patch logits (N, K, T) of any size and scale that lean more or less to the labels, and the labels."""
    n, k, t = draw(st.integers(2, 30)), draw(st.integers(2, 7)), draw(st.integers(3, 10))
    scale = 10 ** draw(st.floats(*map(math.log10, scales)))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    labels = torch.randint(0, k, (n,), generator=rng)
    z = torch.randn(n, k, t, generator=rng)
    z[torch.arange(n), labels] += draw(st.floats(-2, 4))
    return scale * z, labels


@st.composite
def records(draw, **options):
    z, labels = draw(patches(**options))
    return Logits.from_patches(z, labels=labels, kernel=draw(st.integers(1, 2)))


@every_method
@few
@given(records())
def test_probabilities_lie_on_the_simplex(name, record):
    probs = METHODS[name]().fit(record).predict_proba(record)
    assert (probs >= 0).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(len(record), dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", TEMPERATURES)
@few
@given(records())
def test_temperatures_change_neither_class_nor_accuracy(name, record):
    method = METHODS[name]().fit(record)
    probs, before = method.predict_proba(record), method.scores(record).softmax(1)
    # Scores that differ by rounding alone may become equal.
    clear = method.scores(record).topk(2, dim=1).values.diff(dim=1).abs().squeeze(1) > 1e-9
    assert torch.equal(probs.argmax(1)[clear], before.argmax(1)[clear])
    if clear.all():
        assert score(probs, record.labels)["accuracy"] == score(before, record.labels)["accuracy"]


@given(records(scales=(1e-2, 1e2)))
def test_large_alpha_drives_entropy_to_log_k(record):
    probs = VarianceSmoothing(alpha=1e9, beta=0.0).predict_proba(record)
    assert score(probs, record.labels)["entropy"] == pytest.approx(math.log(record.classes), abs=1e-6)


@given(patches(), st.integers(1, 2), st.floats(-100, 100), st.integers(-8, 8))
def test_sigma_bar_ignores_a_constant_per_class_and_follows_a_factor(made, kernel, constant, power):
    z = made[0].double()
    shift = constant * torch.arange(z.shape[1])[None, :, None]
    spread = sigma_bar(z, kernel=kernel)
    torch.testing.assert_close(sigma_bar(z + shift, kernel=kernel), spread, rtol=1e-6, atol=1e-10)
    assert torch.equal(sigma_bar(z * 2.0**power, kernel=kernel), spread * 2.0**power)


@every_method
@few
@given(records(), st.randoms())
def test_a_permutation_of_the_examples_permutes_the_predictions(name, record, random):
    turned = list(range(len(record)))
    random.shuffle(turned)
    permuted = Logits.from_tensors({key: value[turned] for key, value in record.tensors().items()})
    fitted = METHODS[name]().fit(record)
    assert torch.equal(fitted.predict_proba(permuted), fitted.predict_proba(record)[turned])


@given(patches())
def test_members_are_patches_with_the_axes_turned(made):
    z, labels = made
    a, b = Logits.from_patches(z, labels=labels), Logits.from_members(z.permute(2, 0, 1), labels=labels)
    assert all(torch.equal(value, b.tensors()[name]) for name, value in a.tensors().items())


@every_method
@few
@given(records())
def test_fit_then_json_then_predict_gives_the_same_bits(name, record):
    fitted = METHODS[name]().fit(record)
    again = METHODS[name](**json.loads(json.dumps(asdict(fitted), allow_nan=False)))
    assert torch.equal(again.predict_proba(record), fitted.predict_proba(record))


@every_method
@few
@given(records(), st.integers(0, 6))
def test_names_of_classes_do_not_matter(name, record, turn):
    """Numbering the classes anew numbers the probabilities anew."""
    order = torch.arange(record.classes).roll(turn)
    renamed = replace(
        record,
        logits=record.logits[:, order],
        mean_softmax=record.mean_softmax[:, order],
        labels=order.argsort()[record.labels],
    )
    before = METHODS[name]().fit(record).predict_proba(record)
    after = METHODS[name]().fit(renamed).predict_proba(renamed)
    # An optimiser ends where it ends; its NLL does not depend on the names.
    if name in ("vector", "dirichlet"):
        nll = [score(p, r.labels)["nll"] for p, r in ((before, record), (after, renamed))]
        assert nll[0] == pytest.approx(nll[1], rel=1e-2, abs=1e-2)
    else:
        torch.testing.assert_close(after, before[:, order], rtol=1e-5, atol=1e-7)
