"""Torchvision's classifiers as networks of patches: those that end in average pooling and a linear layer.

Both are linear and so commute: the linear layer applied at every position of the last feature map gives patch logits
whose mean is exactly what the classifier returns. A classifier is recorded as a graph of its steps, in which pooling
shows whether it is a layer, a function or a mean, and the end of the graph is rewritten. Weights keep torchvision's
names, so that they fit the classifier itself.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from vbs_cli.errors import InvalidInput
from vbs_cli.models.base import FITTING, MODELS, spelled
from vbs_cli.models.dropout import Dropout
from vbs_cli.models.pooled_head import check_commutes
from vbs_cli.registry import unknown
from vbs_cli.seeding import generator

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.GELU)
CHANNELS = 3
PROBE = (1, CHANNELS, 128, 128)  # inputs of which every classifier leaves several patches
# Both have further heads for training alone, and weights that take long to draw and that BatchNorm makes needless.
PLAIN = {"aux_logits": False, "init_weights": False}
OPTIONS = {"googlenet": PLAIN, "inception_v3": PLAIN}


def classifier(name: str, *, shape: tuple[int, ...], classes: int, dropout: float) -> nn.Module:
    """Patch logits of an image by one of torchvision's classifiers, untrained: (B, 3, H, W) -> (B, K, h, w).

    Dropout between the pooling and the linear layer is left out: it drops pooled features, and patches have none. The
    conventional network keeps the other dropouts of its own; the MC-dropout variant has one after every activation
    layer instead. An activation that is called as a function, such as the last one of a DenseNet, has none.
    """
    from torchvision import models  # takes seconds, and only these networks need it

    names = models.list_models(module=models)
    if name not in names:
        raise unknown("model", name, [*MODELS, *names])
    if len(shape) != 3 or shape[0] != CHANNELS:
        hint = f"it takes images of {CHANNELS} x H x W; --model {FITTING} takes the network that fits"
        raise InvalidInput(f"{name} cannot take inputs of {spelled(shape)}", hint=hint)
    net = models.get_model(name, weights=None, num_classes=classes, **OPTIONS.get(name, {}))
    replace_dropouts(net, dropout)
    if dropout and not any(isinstance(layer, Dropout) for layer in net.modules()):
        hint = "choose --methods that need no dropout, for instance conventional,temperature,vbs"
        raise InvalidInput(f"{name} has no activation layers that dropout could follow", hint=hint)
    model = patch_network(net, name)
    check_patches(model, net)
    return model


class BranchDropout(Dropout):
    """Stochastic depth: leave a residual branch out for whole examples."""

    def forward(self, x: Tensor) -> Tensor:
        if self.generator is None:
            return x
        return x * super().forward(x.new_ones(len(x), *(1 for _ in x.shape[1:])))


def replace_dropouts(net: nn.Module, dropout: float) -> None:
    """Let all dropouts draw from a generator that is handed over; `dropout` > 0 puts them after every activation."""
    from torchvision.ops import StochasticDepth

    for parent in [*net.modules()]:
        for name, layer in [*parent.named_children()]:
            if isinstance(layer, ACTIVATIONS) and dropout:
                setattr(parent, name, nn.Sequential(layer, Dropout(dropout)))
            elif isinstance(layer, nn.Dropout | StochasticDepth):
                kind = Dropout if isinstance(layer, nn.Dropout) else BranchDropout
                setattr(parent, name, nn.Identity() if dropout or not layer.p else kind(layer.p))


class Recorder(fx.Tracer):
    """Records the steps of a network; our dropouts are single steps, since what they do depends on their generator."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Dropout) or super().is_leaf_module(m, module_qualified_name)


def patch_network(net: nn.Module, name: str) -> fx.GraphModule:
    """The same network, with the same weights, whose linear layer works on the feature map before the pooling."""
    model = fx.GraphModule(net, Recorder().trace(net), class_name=type(net).__name__)
    output = model.graph.output_node()
    head = output.all_input_nodes[0]
    pooling = head.all_input_nodes[0]
    while passes(model, pooling):
        pooling = pooling.all_input_nodes[0]
    if not isinstance(layer_of(model, head), nn.Linear) or not averages(model, pooling):
        hint = "of those that do: resnet18, densenet121, mobilenet_v2, efficientnet_b0"
        raise InvalidInput(f"{name} does not end in average pooling and a linear layer", hint=hint)
    with model.graph.inserting_before(head):
        head.args = (model.graph.call_method("movedim", (pooling.all_input_nodes[0], 1, -1)),)
    with model.graph.inserting_after(head):
        output.args = (model.graph.call_method("movedim", (head, -1, 1)),)
    model.graph.eliminate_dead_code()
    model.delete_all_unused_submodules()
    model.recompile()
    return model


def layer_of(net: nn.Module, step: fx.Node) -> nn.Module | None:
    return net.get_submodule(str(step.target)) if step.op == "call_module" else None


def passes(net: nn.Module, step: fx.Node) -> bool:
    """Whether a step hands pooled features on as they are."""
    layer = layer_of(net, step)
    return isinstance(layer, nn.Flatten | nn.Identity | Dropout) or step.target in (torch.flatten, "flatten")


def averages(net: nn.Module, step: fx.Node) -> bool:
    """Whether a step is the average over all positions."""
    layer = layer_of(net, step)
    if layer is not None:
        return isinstance(layer, nn.AdaptiveAvgPool2d) and layer.output_size in (1, (1, 1))
    return (step.target, *step.args[1:]) in ((F.adaptive_avg_pool2d, (1, 1)), ("mean", [2, 3]))


def check_patches(model: nn.Module, net: nn.Module) -> None:
    """Compare the mean of the patch logits with the classifier's own answer; neither weights nor statistics change."""
    x = torch.randn(PROBE, generator=generator("classifiers", "probe"))
    with torch.no_grad():
        answer = net.eval()(x)
        scale = answer.abs().max()  # untrained logits may be as small as 1e-13 and as large as 1e7
        check_commutes(model.eval()(x) / scale, answer / scale)
    model.train()
