"""Suites of noises for images."""

from __future__ import annotations

from vbs_cli.data.noise import COLOUR, PICTURES, SEVERITIES, SUITES, Suite

# Gaussian and speckle noise as CIFAR-10-C has them at the severities 1 to 5 (Hendrycks and Dietterich 2019).
GAUSSIAN = (0.04, 0.06, 0.08, 0.09, 0.10)
SPECKLE = (0.06, 0.1, 0.12, 0.16, 0.2)
AT_SEVERITIES = (
    "shot",
    "impulse",
    "gaussian-blur",
    "defocus-blur",
    "motion-blur",
    "zoom-blur",
    "fog",
    "brightness",
    "contrast",
    "saturate",
    "pixelate",
    "jpeg",
)
CIFAR10_C = {"gaussian": GAUSSIAN, "speckle": SPECKLE, **dict.fromkeys(AT_SEVERITIES, SEVERITIES)}
FURTHER = {
    "salt-and-pepper": (0.02, 0.04, 0.06, 0.08, 0.1),
    "affine": (0.1, 0.2, 0.3, 0.4, 0.5),  # a turn by up to 15 degrees
    "elastic": (0.2, 0.3, 0.4, 0.6, 0.8),  # displacements of up to 4 pixels
    "translation": SEVERITIES,
    "occlusion": SEVERITIES,
    "greyscale": SEVERITIES,
    "posterise": SEVERITIES,
}

SUITES.register("cifar10-c")(
    Suite("noise, blur, fog, light and compression at the severities of CIFAR-10-C", [COLOUR], CIFAR10_C)
)
SUITES.register("images")(
    Suite(
        "the corruptions of CIFAR-10-C, and moves, occlusion, greyscale and posterising",
        PICTURES,
        CIFAR10_C | FURTHER,
    )
)
