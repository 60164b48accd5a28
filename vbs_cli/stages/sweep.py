"""`vbs noise-sweep`: the test split under growing noise, one forward pass per model, noise and level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from vbs_cli.data import NOISES, noises_for
from vbs_cli.errors import InvalidInput
from vbs_cli.stages import passes as caches
from vbs_cli.stages import work as networks
from vbs_cli.stages.base import Job
from vbs_cli.stages.evaluate import evaluate
from vbs_cli.stages.examples import keep_examples


def sweep(job: Job, noises: Sequence[str], levels: Sequence[float] = ()) -> pd.DataFrame:
    """Cache the passes, then score them with everything else that is cached. Returns the rows of these noises."""
    check_noises(job, noises)
    clean = [p for split in networks.CLEAN for p in caches.clean_passes(job, split)]
    networks.ensure(job, caches.noise_passes(job, noises, levels), before=clean)
    metrics = evaluate(replace(job, force=False))
    keep_examples(job)
    return metrics[metrics["noise"].isin(list(noises))].reset_index(drop=True)


def chosen_noises(job: Job, names: Sequence[str] | None) -> list[str]:
    """The noises to sweep: those named ("all" for every one that fits the data), else the protocol's."""
    networks.need_networks(job)
    words = [word.strip() for name in names or () for word in name.split(",")]
    if "all" in words:
        return noises_for(job.data.shape)
    chosen = list(dict.fromkeys(words)) or list(job.run.settings.noises)
    check_noises(job, chosen)
    return chosen


def check_noises(job: Job, noises: Sequence[str]) -> None:
    """Refuse a noise that is unknown or not for these inputs before anything is computed."""
    fitting = noises_for(job.data.shape)
    for noise in noises:
        if NOISES[noise].images_only and noise not in fitting:
            raise InvalidInput(f"{noise} is a noise for images", hint=f"{job.data.name} takes {', '.join(fitting)}")
