"""What methods, metrics, noises, models, networks, views and datasets must keep; new ones are picked up by name."""

import contextlib
import itertools
import json
import math
from dataclasses import asdict, replace

import pytest
import torch
import torch.nn.functional as F

from vbs_cli import Logits, score
from vbs_cli.data import DATASETS, NOISES, SUITES, Split
from vbs_cli.data.noise import SEVERITIES, noises_for
from vbs_cli.errors import InvalidInput, UnknownName, VbsError
from vbs_cli.logits import SPREADS, activations_name
from vbs_cli.methods import METHODS, TemperatureMethod
from vbs_cli.metrics import HIGHER, LOWER, METRICS, NEITHER, scored
from vbs_cli.metrics.calibration import ECE_BINS
from vbs_cli.metrics.reliability import bin_index, equal_mass
from vbs_cli.models import MODELS, build_model
from vbs_cli.models.base import patch_grid
from vbs_cli.models.dropout import Dropout
from vbs_cli.networks import NETWORKS
from vbs_cli.networks.training import Schedule, initialised, train
from vbs_cli.pairs import check_options, find_pair, known_pairs
from vbs_cli.protocols import protocol
from vbs_cli.registry import Registry
from vbs_cli.views import VIEWS, Place, folder_of
from vbs_cli.views.fast import Fast
from vbs_cli.views.walk import walk

CLASSES = 5
ALL = tuple(METRICS)


def parts(n=200, scale=1.0, seed=0):
    """Patch logits (n, CLASSES, 9) that lean to the labels, and the labels."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (n,), generator=rng)
    z = scale * torch.randn(n, CLASSES, 9, generator=rng)
    z[torch.arange(n), labels] += scale / 2
    return z, labels


def record(n=200, scale=1.0, seed=0):
    """Record with everything that a method may read: other spreads, and summaries of two layers' activations."""
    z, labels = parts(n, scale, seed)
    made = Logits.from_patches(z, labels=labels, kernel=2, spreads=[name for name in SPREADS if name != "exp"])
    rng = torch.Generator().manual_seed(seed + 100)
    layers = {activations_name(place): torch.randn(n, 2 * (3 + place), generator=rng) for place in range(2)}
    return replace(made, extras={**made.extras, **layers})


def all_scores(probs, test):
    return score(probs, test.labels, metrics=ALL, sigma=test.sigma, part_accuracy=test.part_accuracy)


@pytest.fixture(params=list(METHODS))
def method(request):
    return METHODS[request.param]()


def test_probabilities_lie_on_the_simplex(method):
    probs = method.fit(record()).predict_proba(record(seed=1))
    assert probs.dtype == torch.float64
    assert probs.shape == (200, CLASSES)
    assert (probs >= 0).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(200, dtype=torch.float64), atol=1e-12, rtol=0)


def test_a_fitted_method_is_plain_json_and_predicts_the_same_bits_after_it(method):
    fitted = method.fit(record())
    again = type(method)(**json.loads(json.dumps(asdict(fitted), allow_nan=False)))
    assert torch.equal(again.predict_proba(record(seed=1)), fitted.predict_proba(record(seed=1)))


def test_fitting_leaves_the_original_alone(method):
    before = asdict(method)
    method.fit(record())
    assert asdict(method) == before


def test_fitting_again_finds_the_same(method):
    assert asdict(method.fit(record())) == asdict(method.fit(record()))


def test_temperatures_are_positive_and_keep_the_class(method):
    if not isinstance(method, TemperatureMethod):
        pytest.skip("has no temperature")
    fitted, test = method.fit(record()), record(seed=1)
    assert (fitted.temperature(test) > 0).all()
    assert torch.equal(fitted.predict_proba(test).argmax(1), method.scores(test).argmax(1))


def test_the_order_of_the_examples_does_not_matter(method):
    test = record(seed=1)
    turned = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    permuted = Logits.from_tensors({name: value[turned] for name, value in test.tensors().items()})
    fitted = method.fit(record())
    assert torch.equal(fitted.predict_proba(permuted), fitted.predict_proba(test)[turned])


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e5])
def test_constant_tiny_and_huge_logits_give_finite_scores(method, scale):
    test = record(scale=scale)
    result = all_scores(method.fit(test).predict_proba(test), test)
    assert all(math.isfinite(value) for value in result.values())


def test_a_method_fitted_on_ordinary_logits_survives_huge_ones(method):
    probs = method.fit(record()).predict_proba(record(scale=1e5, seed=1))
    torch.testing.assert_close(probs.sum(1), torch.ones(200, dtype=torch.float64))


def test_a_single_example_is_enough_to_predict(method):
    assert method.fit(record()).predict_proba(record(n=1)).shape == (1, CLASSES)


def test_a_single_example_is_enough_to_fit(method):
    test = record()
    probs = method.fit(record(n=1)).predict_proba(test)
    assert all(math.isfinite(value) for value in all_scores(probs, test).values())


def test_two_classes_and_classes_without_examples_are_fitted(method):
    z, labels = parts()
    two = replace(Logits.from_patches(z[:, :2], labels=labels % 2, kernel=2), extras=record().extras)
    assert method.fit(two).predict_proba(two).shape == (200, 2)
    lacking = replace(record(), labels=labels.clamp(max=CLASSES - 2))
    assert torch.isfinite(method.fit(lacking).predict_proba(lacking)).all()


def nonsense():
    """Inputs of which no record can be made, and what is said about them."""
    z, labels = parts(n=6)
    nan, infinite = z.clone(), z.clone()
    nan[3, 1, 2], infinite[3, 1, 2] = math.nan, math.inf
    return {
        "one class": (z[:, :1], labels * 0, "at least two"),
        "one patch": (z[:, :, :1], labels, "one sub-prediction has no standard deviation"),
        "empty": (z[:0], labels[:0], "no examples"),
        "NaN": (nan, labels, "the first is 3"),
        "infinite": (infinite, labels, "the first is 3"),
        "probabilities": (z.softmax(1), labels, "look like probabilities"),
        "label too high": (z, labels + CLASSES, "expected 0 to 4"),
        "label negative": (z, labels - CLASSES, "expected 0 to 4"),
        "labels of another length": (z, labels[:5], "expected \\(6,\\)"),
        "labels that are no integers": (z, labels.float(), "class indices"),
        "two axes": (z[:, :, 0], labels, "expected"),
    }


@pytest.mark.parametrize("what", list(nonsense()))
def test_no_record_is_made_of_nonsense(what):
    z, labels, said = nonsense()[what]
    with pytest.raises(VbsError, match=said):
        Logits.from_patches(z, labels=labels)
    if z.ndim == 3:
        with pytest.raises(VbsError, match=said):
            Logits.from_members(z.permute(2, 0, 1), labels=labels)


def test_methods_refuse_a_record_that_lacks_what_they_read(method):
    if not method.reads and asdict(method.fit(record())) == asdict(method):
        pytest.skip("reads the logits alone")
    bare = Logits.from_logits(record().logits)
    with pytest.raises(InvalidInput, match=r"needs labels|has no"):
        method.fit(bare).predict_proba(bare)


def test_an_unfitted_method_is_refused_where_there_is_something_to_fit(method):
    if asdict(method.fit(record())) == asdict(method):
        pytest.skip("has nothing to fit")
    with pytest.raises(InvalidInput, match=r"not fitted|call fit"):
        method.predict_proba(record())


def test_what_was_learned_per_class_is_not_applied_to_another_number_of_them(method):
    fitted = method.fit(record())
    if not any(isinstance(value, (list, tuple)) for value in asdict(fitted).values()):
        pytest.skip("learns nothing per class")
    z, labels = parts()
    two = replace(Logits.from_patches(z[:, :2], labels=labels % 2), extras=record().extras)
    with pytest.raises(InvalidInput, match="fitted on 5 classes, this record has 2"):
        fitted.predict_proba(two)


@pytest.fixture(params=ALL)
def metric(request):
    return request.param


def predictions(n=200, scale=1.0):
    test = record(n=n, scale=scale)
    return scored(test.logits.double().softmax(1), test.labels, sigma=test.sigma, part_accuracy=test.part_accuracy)


def test_metrics_are_finite(metric):
    value = METRICS[metric](predictions())
    assert value.shape == (1,)
    assert math.isfinite(value)


def test_metrics_of_weighted_examples_are_those_of_the_examples_repeated(metric):
    test = record(n=60)
    times = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(2))
    columns = (test.logits.double().softmax(1), test.labels, test.sigma, test.part_accuracy)
    weighted = replace(predictions(n=60), weights=times[None].double())
    probs, labels, sigma, right = (column.repeat_interleave(times, 0) for column in columns)
    repeated = scored(probs, labels, sigma=sigma, part_accuracy=right)
    if "mass" in metric:  # whose bins are those of the sample
        repeated.columns["mass index"] = bin_index(repeated.confidence, equal_mass(columns[0].amax(1), ECE_BINS))
    torch.testing.assert_close(METRICS[metric](weighted), METRICS[metric](repeated), rtol=1e-9, atol=1e-12)


def test_metrics_of_many_sets_of_weights_are_those_of_each(metric):
    weights = torch.randint(0, 3, (4, 60), generator=torch.Generator().manual_seed(3)).double()
    one = predictions(n=60)
    together = METRICS[metric](replace(one, weights=weights))
    alone = torch.cat([METRICS[metric](replace(one, weights=each[None])) for each in weights])
    torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-12)


def test_metrics_do_not_mind_the_order_of_the_examples(metric):
    test = record()
    turned = torch.randperm(200, generator=torch.Generator().manual_seed(3))
    columns = (test.logits.double().softmax(1), test.labels, test.sigma, test.part_accuracy)
    probs, labels, sigma, right = (column[turned] for column in columns)
    permuted = scored(probs, labels, sigma=sigma, part_accuracy=right)
    torch.testing.assert_close(METRICS[metric](permuted), METRICS[metric](predictions()), rtol=1e-9, atol=1e-12)


UNDEFINED = {name for name in METRICS if name.startswith(("auroc", "fpr95"))}  # without both errors and right ones


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_metrics_of_certain_predictions_are_finite_or_have_nothing_to_tell_apart(metric, n, right):
    labels = torch.arange(n) % 3
    probs = torch.eye(3)[labels if right else (labels + 1) % 3]
    value = score(probs, labels, metrics=[metric], sigma=torch.zeros(n), part_accuracy=torch.zeros(n))[metric]
    assert math.isnan(value) if metric in UNDEFINED else math.isfinite(value)


def test_metrics_of_uniform_predictions_are_finite(metric):
    labels = torch.arange(12) % 4
    probs = torch.full((12, 4), 0.25)
    value = score(probs, labels, metrics=[metric], sigma=torch.ones(12), part_accuracy=torch.ones(12))[metric]
    assert math.isfinite(value)


@pytest.mark.parametrize(
    ("probs", "labels"),
    [
        (torch.randn(4, 3), [0] * 4),
        (torch.full((4, 3), 1 / 3), [0] * 3),
        (torch.full((4, 3), 1 / 3), [3] * 4),
        (torch.full((4, 3), 1 / 3), [-1] * 4),
        (torch.full((4, 3), math.nan), [0] * 4),
        (torch.tensor([[math.inf, -math.inf, 1.0]]), [0]),
        (torch.ones(4, 1), [0] * 4),
        (torch.ones(0, 3), []),
        (torch.ones(3), [0] * 3),
    ],
)
def test_metrics_refuse_nonsense(metric, probs, labels):
    n = len(probs)
    with pytest.raises(VbsError):
        score(
            probs,
            torch.tensor(labels, dtype=torch.int64),
            metrics=[metric],
            sigma=torch.ones(n),
            part_accuracy=torch.ones(n),
        )


@pytest.mark.parametrize("sigma", [torch.ones(3), torch.full((4,), math.nan), torch.ones(4, 2)])
def test_a_spread_must_be_one_finite_number_per_example(sigma):
    with pytest.raises(VbsError, match="sigma"):
        score(torch.full((4, 3), 1 / 3), [0] * 4, metrics=["auroc_sigma"], sigma=sigma)


def test_a_metric_of_the_spread_says_what_it_lacks():
    with pytest.raises(InvalidInput, match="no sigma; pass sigma="):
        score(torch.full((4, 3), 1 / 3), [0] * 4, metrics=["auroc_sigma"])


def test_score_has_the_keys_of_the_contract():
    test = record()
    expected = {"accuracy", "nll", "brier", "ece", "entropy", "kl_uniform"}
    assert set(score(test.logits.softmax(1), test.labels)) == expected


SUITED = [
    pytest.param(name, shape, id=f"{name}-{shape}")
    for shape in ((1, 640), (2, 640), (4, 640), (3, 32, 24), (1, 24, 32))
    for name in noises_for(shape)
]


def natural(shape, count=16):
    """Smooth images in [0, 1], or sums of a few tones with a swelling envelope, between -1 and 1."""
    rng = torch.Generator().manual_seed(1)
    if len(shape) == 3:
        coarse = torch.rand(count, shape[0], 5, 5, generator=rng)
        fine = torch.rand(count, *shape, generator=rng)
        return (0.85 * F.interpolate(coarse, shape[1:], mode="bilinear") + 0.15 * fine).clamp(0, 1)
    time = torch.arange(shape[1])
    tones = (
        2
        * math.pi
        * torch.rand(count, shape[0], 5, 1, generator=rng)
        * torch.tensor([0.01, 0.03, 0.1, 0.2, 0.4])[:, None]
    )
    waves = (tones * time + 6 * torch.rand(count, shape[0], 5, 1, generator=rng)).sin().mean(2)
    return 0.9 * waves * (0.2 + 0.8 * (time / shape[1] * math.pi).sin())


@pytest.mark.parametrize(("name", "shape"), SUITED)
def test_noises_change_inputs_more_and_more_and_keep_what_they_must(name, shape):
    noise, x = NOISES[name], natural(shape)
    before = x.clone()
    draw = noise.draw(x.shape, torch.Generator().manual_seed(0))
    assert torch.equal(draw, noise.draw(x.shape, torch.Generator().manual_seed(0)))
    kept, distances = draw.clone(), []
    for level in SEVERITIES:
        noisy = noise.apply(x, draw, level)
        assert noisy.shape == x.shape
        assert noisy.dtype == x.dtype
        assert noisy.isfinite().all()
        distances.append(float((noisy - x).flatten(1).norm(dim=1).mean()))
    assert torch.equal(x, before)
    assert torch.equal(draw, kept)
    assert torch.equal(noise.apply(x, draw, level), noisy)
    assert distances[0] > 0
    if noise.monotone:
        assert all(later > 0.999 * earlier for earlier, later in itertools.pairwise(distances)), distances
    # Close to the clean inputs there is little to see.
    assert float((noise.apply(x, draw, 1e-6) - x).flatten(1).norm(dim=1).mean()) <= distances[0]


@pytest.mark.parametrize(("name", "shape"), [each for each in SUITED if NOISES[each.values[0]].family != "mixture"])
def test_noises_distort_each_example_by_itself(name, shape):
    noise, x = NOISES[name], natural(shape, count=6)
    draw = noise.draw(x.shape, torch.Generator().manual_seed(0))
    together = noise.apply(x, draw, 0.6)
    for i in range(len(x)):
        alone = noise.apply(x[i : i + 1], draw[i : i + 1] if len(draw) else draw, 0.6)
        torch.testing.assert_close(alone, together[i : i + 1], rtol=1e-4, atol=1e-5)


def test_every_noise_of_a_suite_suits_some_of_its_inputs_and_has_its_levels():
    for _, suite in SUITES.items():
        for name, levels in suite.levels.items():
            assert set(suite.kinds) & set(NOISES[name].kinds)
            assert levels[0] > 0
            assert all(earlier < later for earlier, later in itertools.pairwise(levels))
            assert levels[-1] <= NOISES[name].most


@pytest.mark.parametrize("name", list(MODELS))
def test_models_give_patch_logits(name):
    taken = 0
    for shape, dropout in itertools.product(((2, 1580), (3, 32, 32)), (0.0, 0.5)):
        with contextlib.suppress(InvalidInput):  # a network of signals takes no images
            z = build_model(name, shape=shape, classes=7, width=12, dropout=dropout).eval()(torch.randn(2, *shape))
            assert z.shape[:2] == (2, 7)
            assert z.ndim == 1 + len(shape)
            assert z[0, 0].numel() > 1
            taken += 1
    assert taken


SIGNALS = (2, 200)


def small_split(name="test", count=40):
    rng = torch.Generator().manual_seed(len(name))
    x, y = torch.rand(count, *SIGNALS, generator=rng).numpy(), torch.randint(0, CLASSES, (count,), generator=rng)
    return Split("contract", name, x, y)


def built(network, seed=0):
    def build():
        return network.build("conv1d-radio", shape=SIGNALS, classes=CLASSES, width=8)

    return initialised(build, seed=seed, name="contract")


@pytest.fixture(params=list(NETWORKS))
def network(request):
    return NETWORKS[request.param]()


def trained(network, *, epochs, resume=None):
    schedule = Schedule(epochs=epochs, batch=16, lr=1e-3)
    data = small_split("train"), small_split("val")
    return [*train(built(network), *data, schedule, seed=0, name="contract", network=network, resume=resume)]


def test_networks_have_settings_of_plain_json_and_one_loss_for_a_batch(network):
    assert type(network)(**json.loads(json.dumps(asdict(network)))) == network
    logits = torch.randn(30, CLASSES, requires_grad=True)
    loss = network.loss(logits, torch.arange(30) % CLASSES, epoch=1)
    assert loss.shape == ()
    loss.backward()
    assert logits.grad.isfinite().all()
    assert logits.grad.any()


def test_a_training_that_was_stopped_ends_with_the_same_bits(network):
    whole = trained(network, epochs=3)
    for checkpoint in whole[:-1]:
        resumed = trained(network, epochs=3, resume=checkpoint)[-1]
        for tensors in ("weights", "best", "optimizer", "memory"):
            expected, found = getattr(whole[-1], tensors), getattr(resumed, tensors)
            assert found.keys() == expected.keys()
            assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_networks_leave_the_artifacts_that_they_announce(network):
    last = trained(network, epochs=1)[-1]
    model = built(network)
    model.load_state_dict(last.weights)
    found = network.finish(model.eval(), last.memory, small_split("train"), seed=0, device="cpu")
    assert set(found) == set(network.artifacts)


def test_training_leaves_the_global_random_numbers_alone(network):
    before = torch.random.get_rng_state()
    trained(network, epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.fixture(params=list(VIEWS))
def view(request):
    return VIEWS[request.param]()


def read(view, seed=0, **options):
    """Record that a view has of a small split, joined from three seeds where it is one across seeds."""
    if view.source:
        source = VIEWS[view.source]()
        return view.join([read(source, each, **options) for each in range(3)], spreads=["softmax"])
    model = built(NETWORKS[view.network](), seed)
    [found] = walk(model, small_split(), view, seed=seed, extras=["sigma_softmax"], **options)
    return found


def test_views_give_a_record_with_all_that_methods_read(view):
    found = read(view)
    assert found.logits.shape == (40, CLASSES)
    for name in ("sigma", "mean_softmax", "part_accuracy", "labels"):
        assert len(getattr(found, name)) == 40
    assert (found.sigma >= 0).all()
    assert len(found.sigma_of("softmax")) == 40
    torch.testing.assert_close(found.mean_softmax.sum(1), torch.ones(40))
    assert METHODS[view.plain]().fit(found).predict_proba(found).shape == (40, CLASSES)


def test_views_give_the_same_bits_again_and_leave_the_global_random_numbers_alone(view):
    before = torch.random.get_rng_state()
    first, again = read(view).tensors(), read(view).tensors()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_views_do_not_depend_on_how_many_inputs_go_through_together(view, monkeypatch):
    if any(isinstance(layer, Dropout) for layer in built(NETWORKS[view.network]()).modules()):
        pytest.skip("masks of dropout are drawn for the inputs that go through together")
    whole = read(view)
    monkeypatch.setattr("vbs_cli.views.walk.CHUNK", 8)
    for name, value in read(view).tensors().items():
        torch.testing.assert_close(value, getattr(whole, name, whole.extras.get(name)), rtol=1e-4, atol=1e-5)


def test_views_say_truly_what_they_cost_and_how_their_parts_lie(view):
    if view.source:
        assert VIEWS[view.source]().source == ""
        return
    calls = []
    model = built(NETWORKS[view.network]())
    handle = [layer for layer in model.modules() if isinstance(layer, torch.nn.Conv1d)][-1].register_forward_hook(
        lambda layer, inputs, output: calls.append(len(output))
    )
    [found] = walk_unfolded(model, view)
    handle.remove()
    assert sum(calls) == view.passes * len(found)
    assert tuple(found.parts.shape[2:]) == view.grid(patch_grid(model, SIGNALS))


def walk_unfolded(model, view):
    """A walk over the network itself, whose layers have not been folded into others."""
    reader = view.reader(Fast(model.eval(), 8), device="cpu")
    split = small_split()
    with torch.inference_mode():
        parts = reader(split.inputs(slice(None)), Place(0, "test", 0))
    return [Logits.from_patches(parts, labels=split.y, kernel=view.window, keep_parts=True)]


def test_views_name_registered_networks_and_methods(view):
    assert view.network in NETWORKS
    assert view.plain in METHODS
    assert all(method in METHODS for method in (*view.names, *view.defaults))
    for method, options in view.defaults.items():
        METHODS[method](**options)


def test_every_known_pair_is_found_by_its_name_and_by_its_two_words():
    folders = [folder_of(name) for name in VIEWS]
    assert len(set(folders)) == len(folders)
    for name, pair in known_pairs().items():
        assert find_pair(name) == find_pair(str(pair)) == pair
        assert pair.name == name


@pytest.mark.parametrize("name", list(DATASETS))
def test_datasets_bring_protocols_that_name_registered_things_only_or_are_for_tests(name):
    dataset = DATASETS[name]
    assert dataset.command.startswith("vbs download")
    if dataset.tests:
        with pytest.raises(InvalidInput, match=f"test set for runs of {dataset.tests}.*vbs train --dataset"):
            protocol(name, "quick")
        assert dataset.inputs == DATASETS[dataset.tests].inputs
        return
    assert set(dataset.protocols) == {"quick", "paper"}
    for profile, s in dataset.protocols.items():
        assert (s.dataset, s.profile) == (name, profile)
        assert s == protocol(name, profile)
        assert all(method in known_pairs() for method in s.methods)
        assert all(noise in noises_for(dataset.inputs[0]) for noise in s.noises)
        check_options(s.options)
        shape, classes = dataset.inputs
        assert patch_grid(build_model(s.model, shape=shape, classes=classes, width=8), shape).numel() > 1


@pytest.mark.parametrize("name", list(METRICS))
def test_metrics_say_which_way_is_better(name):
    """Where one way is better, perfect predictions score no worse than wrong ones."""
    chosen, labels = METRICS[name], torch.arange(40) % 3
    assert chosen.better in (HIGHER, LOWER, NEITHER)
    right, wrong = (torch.eye(3).double()[(labels + shift) % 3] * 0.9 + 0.1 / 3 for shift in (0, 1))
    ranked = torch.linspace(0, 1, 40)
    values = [
        score(torch.where((ranked < share)[:, None], wrong, right), labels, metrics=[name], sigma=-ranked * sign,
              part_accuracy=(ranked >= share).double())[name]
        for share, sign in ((0.1, 1), (0.9, 1))
    ]  # fmt: skip
    if chosen.better and not any(map(math.isnan, values)):
        assert chosen.better * (values[0] - values[1]) >= 0


def test_a_registry_refuses_doubles_and_suggests():
    registry: Registry[int] = Registry("thing")
    registry.register("alpha")(1)
    with pytest.raises(ValueError, match="twice"):
        registry.register("alpha")(2)
    with pytest.raises(UnknownName, match=r"unknown thing 'alhpa'; did you mean 'alpha'\?"):
        registry["alhpa"]
    with pytest.raises(UnknownName, match="known: alpha"):
        registry["zzz"]
