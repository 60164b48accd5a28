"""Predictions whose labels are known to fit them, or not."""

import torch


def predictions(n=500, k=6, seed=0, sharp=2.0, honest=False):
    """Softmaxes (n, k) and labels drawn from them (`honest`), or from softmaxes half as sharp."""
    rng = torch.Generator().manual_seed(seed)
    logits = sharp * torch.randn(n, k, generator=rng, dtype=torch.float64)
    labels = torch.multinomial((logits if honest else logits / 2).softmax(1), 1, generator=rng).squeeze(1)
    return logits.softmax(1), labels
