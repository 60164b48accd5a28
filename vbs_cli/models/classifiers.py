"""Torchvision's classifiers as networks of patch logits, if they end in average pooling and a linear layer.

A classifier is recorded as a graph of its steps, and the end of the graph is rewritten. Weights keep torchvision's
names, so that they fit the classifier itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

from vbs_cli.errors import InvalidInput
from vbs_cli.models.base import FITTING, MODELS, format_shape
from vbs_cli.models.dropout import Dropout
from vbs_cli.models.endings import Recorder, add_patches, check_commutes, find_ending
from vbs_cli.registry import unknown
from vbs_cli.seeding import generator

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.GELU)
CHANNELS = 3
PROBE = (1, CHANNELS, 128, 128)  # shape of inputs of which every classifier leaves several patches
# Both have auxiliary heads that only training uses, and an initialisation that is slow and, with BatchNorm, needless.
PLAIN = {"aux_logits": False, "init_weights": False}
OPTIONS = {"googlenet": PLAIN, "inception_v3": PLAIN}


def classifier(name: str, *, shape: tuple[int, ...], classes: int, dropout: float) -> nn.Module:
    """Build one of torchvision's classifiers, untrained, for patch logits of images: (B, 3, H, W) -> (B, K, h, w).

    Dropout between the pooling and the linear layer is left out: it drops pooled features, which patches do not have.
    The conventional network keeps its other dropouts; the MC-dropout variant has one after every activation layer
    instead. An activation that is called as a function, such as the last one of a DenseNet, gets none.
    """
    from torchvision import models  # here, as it takes seconds and only these networks need it

    names = models.list_models(module=models)
    if name not in names:
        raise unknown("model", name, [*MODELS, *names])
    if len(shape) != 3 or shape[0] != CHANNELS:
        hint = f"it takes images of {CHANNELS} x H x W; --model {FITTING} chooses a network that fits"
        raise InvalidInput(f"{name} cannot take inputs of {format_shape(shape)}", hint=hint)
    net = models.get_model(name, weights=None, num_classes=classes, **OPTIONS.get(name, {}))
    replace_dropouts(net, dropout)
    if dropout and not any(isinstance(layer, Dropout) for layer in net.modules()):
        hint = "choose --methods that need no dropout, for instance conventional,temperature,vbs"
        raise InvalidInput(f"{name} has no activation layers that dropout could follow", hint=hint)
    model = patch_network(net, name)
    check_patches(model, net)
    return model


class BranchDropout(Dropout):
    """Stochastic depth: drop a residual branch for whole examples."""

    def forward(self, x: Tensor) -> Tensor:
        if self.generator is None:
            return x
        return x * super().forward(x.new_ones(len(x), *(1 for _ in x.shape[1:])))


def replace_dropouts(net: nn.Module, dropout: float) -> None:
    """Replace all dropouts by those of `Dropout`, or, if `dropout` > 0, by one after every activation layer."""
    from torchvision.ops import StochasticDepth

    for parent in [*net.modules()]:
        for name, layer in [*parent.named_children()]:
            if isinstance(layer, ACTIVATIONS) and dropout:
                setattr(parent, name, nn.Sequential(layer, Dropout(dropout)))
            elif isinstance(layer, nn.Dropout | StochasticDepth):
                kind = Dropout if isinstance(layer, nn.Dropout) else BranchDropout
                setattr(parent, name, nn.Identity() if dropout or not layer.p else kind(layer.p))


def patch_network(net: nn.Module, name: str) -> fx.GraphModule:
    """Network with the weights of `net`, whose linear layer works on the feature map before the pooling."""
    model = fx.GraphModule(net, Recorder().trace(net), class_name=type(net).__name__)
    try:
        if find_ending(model, model.graph).head is not None:
            return ended_in_patches(model, name)
    except InvalidInput:
        pass
    hint = "of those that do: resnet18, densenet121, mobilenet_v2, efficientnet_b0"
    raise InvalidInput(f"{name} does not end in average pooling and a linear layer", hint=hint)


def ended_in_patches(model: fx.GraphModule, name: str) -> fx.GraphModule:
    """Rewrite the end of a recorded classifier so that it returns its patch logits."""
    try:
        ending = find_ending(model, model.graph)
    except InvalidInput as error:
        raise InvalidInput(f"{name} has no patch logits: {error.message}", hint=error.hint) from None
    model.graph.output_node().args = (add_patches(model, model.graph, ending),)
    model.graph.eliminate_dead_code()
    model.delete_all_unused_submodules()
    model.recompile()
    return model


def check_patches(model: nn.Module, net: nn.Module) -> None:
    """Refuse a model whose mean patch logits differ from the output of `net`; BatchNorm statistics do not change."""
    x = torch.randn(PROBE, generator=generator("classifiers", "probe"))
    with torch.no_grad():
        check_commutes(model.eval()(x), net.eval()(x))
    model.train()
