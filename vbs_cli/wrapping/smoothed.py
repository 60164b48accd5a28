"""Variance-based smoothing around a trained classifier that ends in average pooling and a linear layer.

The classifier runs once and gives both its own logits and patch logits, whose mean they are. That is checked on real
inputs before anything relies on it. The spread of the patches becomes the temperature where the classifier runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

import torch
from torch import Tensor, fx, nn

from vbs_cli.data.noise import distort, noises_for
from vbs_cli.diagnosis import Diagnosis, diagnose
from vbs_cli.errors import InvalidInput, is_out_of_memory
from vbs_cli.logits import Logits, as_tensor, check_logits, spread_over, spreads_named
from vbs_cli.methods.variance import MAPS, VarianceSmoothing, sigma_tilde
from vbs_cli.models.base import format_shape
from vbs_cli.models.endings import INSTEAD, Recorder, add_patches, check_commutes, find_ending, refused
from vbs_cli.wrapping.watching import watched

PAPER_NOISES = ("gaussian", "speckle", "salt-and-pepper", "affine", "affine-no-zoom", "elastic")
LEVELS = (0.25, 0.5, 0.75, 1.0)  # levels of noise for `diagnose`
Pass = Callable[["Smoothed", Tensor], tuple[Tensor, Tensor]]


def wrap(
    net: nn.Module, *, head: str | None = None, kernel: int = 1, method: VarianceSmoothing | None = None
) -> Smoothed:
    """Wrap a classifier: `wrap(net).fit(val_loader)` divides its logits by a temperature of its own for each input.

    `head` names the layer that gives the logits, for instance "fc", if it is not the network's last step.
    """
    return Smoothed(net, head=head, kernel=kernel, method=method or VarianceSmoothing())


class Smoothed(nn.Module):
    """Classifier whose logits are divided by sigma_tilde: the predicted class stays, the confidence is softened.

    The network stays in evaluation mode, the only mode that alpha and beta hold for.
    """

    alpha: Tensor
    beta: Tensor

    def __init__(self, net: nn.Module, *, head: str | None, kernel: int, method: VarianceSmoothing) -> None:
        super().__init__()
        if not isinstance(net, nn.Module):
            raise InvalidInput(f"wrap was given a {type(net).__name__}", hint="give a torch.nn.Module")
        self.net = net.eval()
        self.head = head
        self.kernel = kernel
        self.rule = method
        self.checked = False
        self.validation: Logits | None = None  # record that it was fitted on, for `diagnose`
        self.register_buffer("alpha", torch.empty((), device=device_of(net)))
        self.register_buffer("beta", torch.empty((), device=device_of(net)))
        self.use(method)
        self.run = make_pass(net, head)

    @torch.no_grad()
    def fit(self, batches: Iterable[Any]) -> Self:
        """Fit the method, whose beta may be a rule, on batches (inputs, labels) of validation data."""
        self.eval()
        self.use(self.rule)
        records: list[Logits] = []
        for batch in batches:
            if not isinstance(batch, tuple | list) or len(batch) < 2:
                why = f"a validation batch is a {type(batch).__name__}"
                raise InvalidInput(why, hint="give fit a loader of pairs (inputs, labels)")
            x = batch[0].to(device_of(self.net))
            if not records:
                self.verify(x)
            records.append(self.record(x, batch[1]))
        if not records:
            raise InvalidInput("there are no validation batches", hint="give fit a loader that is not empty")
        self.validation = Logits.concat(records)
        self.use(self.method.fit(self.validation))
        return self

    @torch.no_grad()
    def diagnose(
        self, batches: Iterable[Any], *, noises: Sequence[str] = (), levels: Sequence[float] = LEVELS
    ) -> Diagnosis:
        """Diagnose whether smoothing fits this network, on test batches (inputs, labels), clean and under noise.

        `noises` are by default the paper's that suit the inputs. The network runs once for each noise and level.
        """
        if self.validation is None:
            raise InvalidInput("the classifier is not fitted", hint="call fit with a loader of validation data first")
        clean: list[Logits] = []
        noisy: dict[tuple[str, float], list[Logits]] = {}
        for block, (x, labels, *_) in enumerate(batches):
            device = device_of(self.net)
            clean.append(self.record(x.to(device), labels))
            fitting = [noise for noise in noises_for(tuple(x.shape[1:])) if noise in PAPER_NOISES]
            for noise in noises or fitting:
                for level in levels:
                    y = distort(x, noise=noise, level=level, dataset="wrapped", split="test", block=block)
                    noisy.setdefault((noise, level), []).append(self.record(y.to(device), labels))
        if not clean:
            raise InvalidInput("there are no test batches", hint="give diagnose a loader that is not empty")
        courses: dict[str, list[tuple[float, Logits]]] = {}
        for (noise, level), records in noisy.items():
            courses.setdefault(noise, []).append((level, Logits.concat(records)))
        return diagnose(Logits.concat(clean), courses, self.validation, method=self.method)

    def use(self, method: VarianceSmoothing) -> None:
        """Smooth by this method from now on; a rule for beta has yet to be resolved by `fit`."""
        self.method = method
        with torch.no_grad():
            self.alpha.fill_(method.alpha)
            self.beta.fill_(torch.nan if isinstance(method.beta, str) else method.beta)

    def verify(self, x: Tensor) -> None:
        """Refuse a network whose output is not the mean of its patch logits (B, K, *grid)."""
        own = self.net(x)
        if not isinstance(own, Tensor) or own.ndim != 2:
            what = f"shape {tuple(own.shape)}" if isinstance(own, Tensor) else f"type {type(own).__name__}"
            raise refused(self.net, f"its answer has {what}, logits have (B, K)")
        self.checked = False
        try:
            _, patches = self.answer_and_patches(x)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise refused(self.net, "its linear layer does not fit single positions of what it pools") from None
        check_commutes(patches, own)

    def answer_and_patches(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The network's own logits (B, K) and patch logits (B, K, *grid), from one pass."""
        answer, patches = self.run(self, x)
        if patches.shape[2:].numel() < 2:
            why = f"{type(self.net).__name__} leaves a single patch of inputs {format_shape(tuple(x.shape[1:]))}"
            raise InvalidInput(why, hint=f"the spread needs two or more: give larger inputs, or {INSTEAD}")
        if not (self.checked or torch.compiler.is_compiling()):  # a compiled graph must not wait for values
            check_logits(as_tensor(answer))
            check_commutes(patches, answer)
            self.checked = True
        return answer, patches

    def smoothing(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The network's logits (B, K), sigma_bar (B,) and sigma_tilde (B,), in at least single precision."""
        if isinstance(self.method.beta, str):
            why = f"beta is still the rule {self.method.beta!r}"
            raise InvalidInput(why, hint="call fit with a loader of validation data first")
        answer, patches = map(at_least_single, self.answer_and_patches(x))
        sigma = spread_over(patches, self.kernel, spread=self.method.spread).to(answer.dtype)
        alpha, beta = self.alpha.to(answer.dtype), self.beta.to(answer.dtype)
        return answer, sigma, sigma_tilde(MAPS[self.method.map], sigma, alpha, beta)

    def forward(self, x: Tensor) -> Tensor:
        """Calibrated logits (B, K), in at least single precision."""
        answer, _, s = self.smoothing(x)
        return answer / s[:, None]

    def predict_proba(self, x: Tensor) -> Tensor:
        """Probabilities (B, K), in float64."""
        answer, _, s = self.smoothing(x)
        return (answer.double() / s.double()[:, None]).softmax(1)

    def temperature(self, x: Tensor) -> Tensor:
        """Temperature sigma_tilde of each input, (B,)."""
        return self.smoothing(x)[2]

    def sigma(self, x: Tensor) -> Tensor:
        """Spread sigma_bar of each input, (B,)."""
        patches = at_least_single(self.patches(x))
        return spread_over(patches, self.kernel, spread=self.method.spread).to(patches.dtype)

    def patches(self, x: Tensor) -> Tensor:
        """Patch logits (B, K, *grid), whose mean has been compared with the network's own answer."""
        return self.answer_and_patches(x)[1]

    def record(self, x: Tensor, labels: Any = None) -> Logits:
        """Record for methods, from one pass of the network; on the CPU, where methods are fitted."""
        answer, patches = self.answer_and_patches(x)
        labels = None if labels is None else torch.as_tensor(labels).to(patches.device)
        spreads = spreads_named(self.method.reads)
        record = Logits.from_patches(patches, labels=labels, kernel=self.kernel, spreads=spreads)
        tensors = replace(record, logits=as_tensor(answer)).tensors()
        return Logits.from_tensors({name: value.cpu() for name, value in tensors.items()})

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.net.eval()
        return self

    def get_extra_state(self) -> Tensor:
        """Kernel and method as a tensor of the bytes of JSON, which files of tensors alone can hold."""
        return torch.tensor([*json.dumps({"kernel": self.kernel, "method": asdict(self.method)}).encode()]).byte()

    def set_extra_state(self, state: Tensor) -> None:
        settings = json.loads(bytes(state.tolist()))
        self.kernel = settings["kernel"]
        self.use(VarianceSmoothing(**settings["method"]))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "run"}  # `run` cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.run = make_pass(self.net, self.head)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move alpha and beta with the network, but keep single precision: half precision has three digits."""
        fitted = {"alpha": self.alpha, "beta": self.beta}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in fitted.items():
            moved = getattr(self, name)
            if moved.dtype != value.dtype:
                setattr(self, name, value.to(moved.device))
        return self


def at_least_single(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def device_of(net: nn.Module) -> torch.device:
    return next((weight.device for weight in net.parameters()), torch.device("cpu"))


class Root(nn.Module):
    """Gives a network to be recorded the name that it has in `Smoothed`, and its optional arguments their defaults."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        return self.net(x)


def make_pass(net: nn.Module, head: str | None) -> Pass:
    """Make a function that runs the network of a `Smoothed` once, for its logits and its patch logits.

    If the network can be recorded, the function is the recorded steps and those that give the patch logits. They look
    up every layer and weight in the `Smoothed`, so they use whatever is loaded, cast or moved there.
    """
    layer = named_layer(net, head)
    root = Root(net)
    try:
        graph = Recorder().trace(root)
    except Exception:  # whatever the network's own code raises when it gets a value that has no data yet
        return lambda smoothed, x: watched(smoothed.net, x, head=layer)
    try:
        ending = find_ending(root, graph, head=head and f"net.{head}")
    except InvalidInput as error:
        raise refused(net, error.message, hint=error.hint) from None
    if any(step.op == "get_attr" and not str(step.target).startswith("net.") for step in graph.nodes):
        # A tensor that the network makes in every pass was recorded as a constant, which would not move with it.
        return lambda smoothed, x: watched(smoothed.net, x, head=layer)
    output = graph.output_node()
    output.args = ((output.args[0], add_patches(root, graph, ending)),)
    return type(fx.GraphModule(root, graph)).forward


def named_layer(net: nn.Module, name: str | None) -> nn.Module | None:
    if name is None:
        return None
    layers: dict[str, nn.Module] = dict(net.named_modules())
    if name not in layers:
        linear = [known for known, layer in layers.items() if isinstance(layer, nn.Linear)]
        hint = f"its linear layers: {', '.join(linear[-5:])}" if linear else "it has no linear layer"
        raise InvalidInput(f"{type(net).__name__} has no layer {name!r}", hint=hint)
    return layers[name]
