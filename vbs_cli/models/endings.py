"""Ending of a classifier: the average over positions, and the linear layer that reads it.

Both are linear and so commute: the linear layer applied at every position of the last feature map gives patch logits
whose mean is exactly what the classifier returns. A classifier is recorded as a graph of its steps, in which pooling
is found whether it is a layer, a function or a mean, and to which the steps that give the patch logits are added.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from vbs_cli.errors import InvalidInput
from vbs_cli.logits import pool
from vbs_cli.models.dropout import Dropout

INSTEAD = "use temperature scaling instead: TemperatureScaling().fit(Logits.from_logits(logits, labels=labels))"
ADAPTIVE = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d)
WINDOWED = (F.avg_pool1d, F.avg_pool2d)
MEANS = (torch.mean, torch.Tensor.mean, "mean")
CHANNELS_FIRST = ({2}, {-1}, {2, 3}, {-2, -1})  # axes of (B, C, T) and (B, C, H, W) that a mean goes over
CHANNELS_LAST = ({1}, {-2}, {1, 2}, {-3, -2})  # axes of (B, T, C) and (B, H, W, C) that a mean goes over
PASSING_LAYERS = (nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, Dropout)
PASSING = (torch.flatten, torch.squeeze, torch.reshape, F.dropout)
PASSING_METHODS = ("flatten", "squeeze", "view", "reshape", "contiguous", "permute")
RELU = (torch.relu, F.relu, "relu")
Step = Callable[[nn.Module, fx.Node], bool]


@dataclass(frozen=True)
class Ending:
    """Last steps of a recorded classifier."""

    features: fx.Node  # feature map that is averaged, with its channels on `axis`
    axis: int  # 1 or -1
    head: fx.Node | None  # linear step that reads the average; None if scores are averaged and nothing follows


class Value(fx.Proxy):
    """Value in a recorded graph; `x += y` is recorded as such, where torch.fx alone would record `x = x + y`."""

    def __iadd__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

    def __imul__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})


class Recorder(fx.Tracer):
    """Records the steps of a network; each of our dropouts is one step, since its work depends on its generator."""

    def proxy(self, node: fx.Node) -> Value:
        return Value(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Dropout) or super().is_leaf_module(m, module_qualified_name)


def find_ending(net: nn.Module, graph: fx.Graph, *, head: str | None = None) -> Ending:
    """Find the ending in a graph of `net`; `head` names the layer that gives the scores if it is not the last one."""
    last = graph.output_node().args[0]
    if not isinstance(last, fx.Node):
        raise InvalidInput(f"it returns a {type(last).__name__}, not logits (B, K)", hint=INSTEAD)
    last = walk_back(net, last, passes)
    axis = averaged_axis(net, last)
    if axis is not None:
        scores = walk_back(net, source(last), lambda net, step: passes(net, step) or rectifies(net, step))
        if scores.target != head and not is_head(net, scores):
            raise InvalidInput("it has no linear layer or 1x1 convolution next to its average pooling", hint=INSTEAD)
        return Ending(source(last), axis, None)
    step = last if head is None else called(graph, head)
    if not is_head(net, step):
        why = f"it ends in {describe_step(net, step)}, not in a linear layer or a 1x1 convolution"
        raise InvalidInput(why, hint=INSTEAD)
    pooling = walk_back(net, source(step), passes)
    axis = averaged_axis(net, pooling)
    if axis is None:
        raise InvalidInput(reason(net, pooling), hint=INSTEAD)
    return Ending(source(pooling), axis, step)


def add_patches(net: nn.Module, graph: fx.Graph, ending: Ending) -> fx.Node:
    """Add steps that give the patch logits (B, K, *grid) to the end of a graph of `net`; return the last one."""
    features, axis, head = ending.features, ending.axis, ending.head
    with graph.inserting_before(graph.output_node()):
        if head is not None and is_convolution(net, head):
            return repeated(graph, head, features)
        if head is not None and axis == 1:
            return graph.call_function(at_positions, (features, *weights(net, graph, head)))
        if head is not None:
            features = repeated(graph, head, features)
        return features if axis == 1 else graph.call_method("movedim", (features, axis, 1))


def at_positions(features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply a linear layer at every position: (B, C, *grid) -> (B, K, *grid).

    A 1x1 convolution takes half the time of a matrix product on a CPU, and leaves the patches of a class side by side
    in memory, where their spread takes a sixth of the time.
    """
    convolve = F.conv1d if features.ndim == 3 else F.conv2d
    return convolve(features, weight.view(*weight.shape, *[1] * (features.ndim - 2)), bias)


def weights(net: nn.Module, graph: fx.Graph, head: fx.Node) -> list[Any]:
    """Weight and, if there is one, bias of a linear step, as nodes of the graph."""
    layer = layer_of(net, head)
    if layer is None:
        return [*head.args[1:], *(head.kwargs[name] for name in ("weight", "bias") if name in head.kwargs)]
    names = [name for name in ("weight", "bias") if getattr(layer, name) is not None]
    return [graph.get_attr(f"{head.target}.{name}") for name in names]


def repeated(graph: fx.Graph, step: fx.Node, x: fx.Node) -> fx.Node:
    """Copy of a step that works on `x` instead of its input."""

    def swapped(arguments: Any) -> Any:
        return fx.node.map_arg(arguments, lambda node: x if node is source(step) else node)

    return graph.create_node(step.op, step.target, swapped(step.args), swapped(step.kwargs))


def refused(net: nn.Module, why: str, *, hint: str = INSTEAD) -> InvalidInput:
    return InvalidInput(f"{type(net).__name__} has no patch logits: {why}", hint=hint)


def check_commutes(patches: Tensor, answer: Tensor) -> None:
    """Refuse a network whose answer (B, K) is not the mean of its patch logits (B, K, *grid), within rounding."""
    tolerance = max(1e-3, 8 * torch.finfo(answer.dtype).eps)
    same = answer.shape == patches.shape[:2]
    # Relative to the largest: untrained logits may be as small as 1e-13 and as large as 1e7.
    if not same or not (pool(patches.float()) - answer).abs().max() <= tolerance * answer.abs().max():
        hint = f"something non-linear stands between its average pooling and its linear layer; {INSTEAD}"
        raise InvalidInput("the mean of the patch logits is not what this network returns", hint=hint)


def channel_axis(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    """Channel axis, 1 or -1, of a tensor that a function averages over all positions; None if it does not.

    Whether the windows of an average pooling cover all positions is left to `check_commutes`.
    """
    if function in WINDOWED:
        return 1
    if function in ADAPTIVE:
        return 1 if is_single(kwargs.get("output_size", *args[1:2])) else None
    if function not in MEANS:
        return None
    given = kwargs.get("dim", *args[1:2]) if len(args) > 1 or "dim" in kwargs else ()
    axes = {given} if isinstance(given, int) else set(given)
    return 1 if axes in CHANNELS_FIRST else -1 if axes in CHANNELS_LAST else None


def is_single(size: Any) -> bool:
    return size == 1 or (not isinstance(size, int) and set(size) == {1})


def averaged_axis(net: nn.Module, step: fx.Node) -> int | None:
    """Channel axis, 1 or -1, of a tensor that this fx node averages over all positions; None if it does not."""
    layer = layer_of(net, step)
    if isinstance(layer, nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d):
        return 1 if is_single(layer.output_size) else None
    if layer is not None:
        return 1 if isinstance(layer, nn.AvgPool1d | nn.AvgPool2d) else None
    return channel_axis(step.target, step.args, step.kwargs)


def layer_of(net: nn.Module, step: fx.Node) -> nn.Module | None:
    return net.get_submodule(str(step.target)) if step.op == "call_module" else None


def source(step: fx.Node) -> fx.Node:
    """Step whose result this one works on."""
    return step.all_input_nodes[0]


def walk_back(net: nn.Module, step: fx.Node, over: Step) -> fx.Node:
    """Go back from a step, itself included, to the nearest one for which `over` is false."""
    while over(net, step):
        step = source(step)
    return step


def passes(net: nn.Module, step: fx.Node) -> bool:
    """Whether a step leaves the values of its input unchanged in evaluation mode."""
    return isinstance(layer_of(net, step), PASSING_LAYERS) or step.target in (*PASSING, *PASSING_METHODS)


def rectifies(net: nn.Module, step: fx.Node) -> bool:
    return isinstance(layer_of(net, step), nn.ReLU) or step.target in RELU


def is_head(net: nn.Module, step: fx.Node) -> bool:
    linear = isinstance(layer_of(net, step), nn.Linear) or step.target is F.linear
    return linear or is_convolution(net, step)


def is_convolution(net: nn.Module, step: fx.Node) -> bool:
    """Whether a step is a convolution of kernel 1 and stride 1 without padding."""
    layer = layer_of(net, step)
    if not isinstance(layer, nn.Conv1d | nn.Conv2d):
        return False
    return {*layer.kernel_size, *layer.stride} == {1} and not any(layer.padding)


def called(graph: fx.Graph, name: str) -> fx.Node:
    """Last step that uses the layer `name`, by calling it or by reading its weight."""
    steps: Iterable[fx.Node] = reversed(graph.nodes)
    for step in steps:
        weights = [node.target for node in step.all_input_nodes if node.op == "get_attr"]
        if step.target == name or f"{name}.weight" in weights:
            return step
    raise InvalidInput("the layer that was named is not used", hint="name the linear layer that gives the logits")


def reason(net: nn.Module, step: fx.Node) -> str:
    """Explanation, for an error, of why the head does not read an average over all positions."""
    if pools(net, step):
        return "its average pooling leaves several positions"
    before = walk_back(net, step, lambda net, one: bool(one.all_input_nodes) and not pools(net, one))
    if not pools(net, before):
        return "it has no average pooling over all positions"
    return f"something non-linear ({describe_step(net, step)}) stands between its average pooling and its linear layer"


def pools(net: nn.Module, step: fx.Node) -> bool:
    """Whether a step averages to a number of positions that does not depend on the input."""
    adaptive = isinstance(layer_of(net, step), nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d) or step.target in ADAPTIVE
    return adaptive or (step.target in MEANS and averaged_axis(net, step) is not None)


def describe_step(net: nn.Module, step: fx.Node) -> str:
    layer = layer_of(net, step)
    return type(layer).__name__ if layer else getattr(step.target, "__name__", str(step.target))
