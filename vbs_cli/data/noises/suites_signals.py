"""Suites of noises for sound and for radio: what recordings and receivers do to a signal."""

from __future__ import annotations

from vbs_cli.data.noise import RADIO, SEVERITIES, SOUND, SUITES, Suite

SPEECH_NOISES = (
    "snr", "mixture", "reverberation", "low-pass", "high-pass", "telephone", "clipping", "gain", "speed", "dropouts",
    "quantisation",
)  # fmt: skip
RADIO_NOISES = (
    "snr", "carrier-offset", "phase-rotation", "phase-noise", "iq-imbalance", "multipath", "low-pass",
    "sampling-offset", "clipping", "quantisation", "mixture",
)  # fmt: skip

SUITES.register("speech")(
    Suite(
        "what microphones, rooms, other voices and telephones do to speech, from faint to heavy",
        [SOUND],
        dict.fromkeys(SPEECH_NOISES, SEVERITIES),
    )
)
SUITES.register("radio")(
    Suite(
        "what receivers, channels and other transmitters do to a radio signal, from faint to heavy",
        [RADIO],
        dict.fromkeys(RADIO_NOISES, SEVERITIES),
    )
)
