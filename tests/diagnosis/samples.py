"""Records of a made-up classifier whose spread and errors go where a test wants them."""

import torch

from vbs_cli.logits import Logits

CLASSES, PATCHES, MARGIN = 5, 12, 5.0
LEVELS = (0.25, 0.5, 0.75, 1.0)


def record(spread, error, *, examples=600, seed=0, margin=MARGIN, keep_parts=False):
    """Confident predictions, a share of them wrong, whose patches differ by about `spread`."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(examples) % CLASSES
    wrong = torch.rand(examples, generator=rng) < error
    said = torch.where(wrong, (labels + 1) % CLASSES, labels)
    logits = margin * torch.nn.functional.one_hot(said, CLASSES).float()
    logits += 0.3 * torch.randn(logits.shape, generator=rng)
    own = spread * (1 + 0.1 * torch.randn(examples, generator=rng).clamp(-3, 3))
    noise = torch.randn(examples, CLASSES, PATCHES, generator=rng)
    noise -= noise.mean(2, keepdim=True)
    patches = logits[:, :, None] + own[:, None, None] * noise
    return Logits.from_patches(patches, labels=labels, keep_parts=keep_parts)


def course(spreads, errors, **options):
    """(level, record) for each of LEVELS."""
    return [(level, record(*pair, **options)) for level, *pair in zip(LEVELS, spreads, errors, strict=True)]


RISING_ERRORS = (0.2, 0.4, 0.6, 0.7)
EVERY_NOISE = {  # spreads at LEVELS; clean data have 2.0
    "rising": (2.6, 3.5, 4.5, 5.5),
    "falling": (1.6, 1.2, 0.8, 0.6),  # radio captures, a ResNet under gaussian noise, affine
    "dipping": (0.6, 1.0, 1.4, 1.7),  # speech under gaussian noise
    "dipping and rising": (0.6, 1.2, 2.4, 3.5),
    "flat": (2.0, 2.0, 2.0, 2.0),
}
