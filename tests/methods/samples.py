"""Records whose best calibration is known."""

import torch

from vbs_cli import Logits


def overconfident(n=1500, k=4, factor=3.0, seed=0):
    """Logits whose labels were drawn from their softmax, then multiplied."""
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return Logits.from_logits(factor * logits, labels=labels)


def of_probabilities(rows, labels=None):
    return Logits.from_logits(torch.tensor(rows, dtype=torch.float64).log(), labels=labels)
