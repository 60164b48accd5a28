"""Fast form of a network, for inference: the same patch logits within rounding, in less time and memory.

BatchNorm is folded into the convolution before it, signals become images one row high, tensors are stored channels
last, and as many inputs are run together as the processor's cache has room for.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval

from vbs_cli.models.dropout import Dropout, use_generator
from vbs_cli.models.memory import channels_last

# Bytes of the processor's last cache for input and output of the largest layer. On CPUs with 32 MB of it, network in
# network took 0.32 of its plain time with 16 images of 1.5 MB, 0.34 with 32, 0.46 with 64, 0.56 with all 128.
CACHE = 24 * 2**20
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


@dataclass(frozen=True)
class Fast:
    """Network in its fast form, and the number of inputs to run it on at a time."""

    net: nn.Module
    chunk: int


def fast(model: nn.Module, shape: tuple[int, ...], *, device: torch.device | str = "cpu", most: int = 64) -> Fast:
    """Copy a network for inference on up to `most` inputs of this shape at a time; switch dropouts of both off."""
    use_generator(model, None)  # as generators cannot be copied
    net = copy.deepcopy(model).eval()
    if isinstance(net, nn.Sequential):
        net = rowed(folded(net))
    elif isinstance(net, fx.GraphModule):
        fold_graph(net)
    room = CACHE // largest_layer(net, shape) if torch.device(device).type == "cpu" else most
    chunk = min(most, 2 ** int(math.log2(max(1, room))))
    return Fast(channels_last(net, device), chunk)


def fused(convolution: nn.Module, norm: nn.Module) -> nn.Module | None:
    """Convolution equal to both layers, or None unless they are a convolution and a BatchNorm with fixed statistics."""
    if not isinstance(convolution, CONVOLUTIONS) or not isinstance(norm, _BatchNorm) or norm.running_mean is None:
        return None
    return fuse_conv_bn_eval(convolution, norm)


def folded(layers: nn.Sequential) -> nn.Sequential:
    """Layers with every BatchNorm folded into the weights of the convolution before it."""
    kept: list[nn.Module] = []
    for layer in layers:
        both = fused(kept[-1], layer) if kept else None
        if both is None:
            kept.append(layer)
        else:
            kept[-1] = both
    return nn.Sequential(*kept)


def fold_graph(net: fx.GraphModule) -> None:
    """Fold every BatchNorm of a recorded network into the convolution before it, in place."""
    calls = [step for step in net.graph.nodes if step.op == "call_module"]
    times = Counter(step.target for step in calls)
    for step in calls:
        before = step.args[0]
        if before not in calls or len(before.users) > 1 or times[before.target] > 1:
            continue
        both = fused(net.get_submodule(before.target), net.get_submodule(step.target))
        if both is not None:
            net.set_submodule(before.target, both)
            step.replace_all_uses_with(before)
            net.graph.erase_node(step)
    net.delete_all_unused_submodules()
    net.recompile()


class Rows(nn.Module):
    """Turns signals into images one row high, channels last: (B, C, L) -> (B, C, 1, L)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(2).contiguous(memory_format=torch.channels_last)


class Unrows(nn.Module):
    """Turns images one row high back into signals: (B, K, 1, T) -> (B, K, T)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(2)


def rowed(layers: nn.Sequential) -> nn.Sequential:
    """Turn a network of signals into one of images, whose convolutions are up to four times as fast on CPUs."""
    signals = any(isinstance(layer, nn.Conv1d) for layer in layers)
    if not signals or not all(isinstance(layer, nn.ReLU | Dropout) or plain_conv1d(layer) for layer in layers):
        return layers
    return nn.Sequential(Rows(), *(conv2d(la) if isinstance(la, nn.Conv1d) else la for la in layers), Unrows())


def plain_conv1d(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv1d) and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def conv2d(layer: nn.Conv1d) -> nn.Conv2d:
    """Convolution of images one row high that equals this convolution of signals."""
    image = nn.Conv2d(
        layer.in_channels,
        layer.out_channels,
        (1, layer.kernel_size[0]),
        stride=(1, layer.stride[0]),
        padding=(0, int(layer.padding[0])),
        dilation=(1, layer.dilation[0]),
        groups=layer.groups,
        bias=layer.bias is not None,
        device="meta",
    )
    image.weight = nn.Parameter(layer.weight.detach().unsqueeze(2))
    image.bias = layer.bias
    return image


@torch.no_grad()
def largest_layer(model: nn.Module, shape: tuple[int, ...]) -> int:
    """Bytes of the largest layer's input and output for one example, by a pass on meta tensors, which have no data."""
    largest = 1

    def watch(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        nonlocal largest
        tensors = [value for value in (*inputs, output) if isinstance(value, Tensor)]
        largest = max(largest, sum(value.numel() * value.element_size() for value in tensors))

    ghost = copy.deepcopy(model).to("meta").eval()
    for module in ghost.modules():
        if not [*module.children()]:
            module.register_forward_hook(watch)
    ghost(torch.empty(1, *shape, device="meta"))
    return largest
