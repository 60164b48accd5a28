"""Diagnosis from records, of one network or of several seeds of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vbs_cli.diagnosis.base import VALIDATION, Diagnosis, Finding, Records, check, same_labels
from vbs_cli.diagnosis.evidence import REPLICATES, findings
from vbs_cli.diagnosis.judgement import judge
from vbs_cli.diagnosis.search import better_settings, windowed
from vbs_cli.logits import Logits
from vbs_cli.methods.variance import VarianceSmoothing


def diagnose(
    record_clean: Logits,
    noisy: Mapping[str, Sequence[tuple[float, Logits]]],
    val: Logits,
    *,
    method: VarianceSmoothing | None = None,
    noisy_val: Sequence[Logits] = (),
    second_sets: Collection[str] = (),
    replicates: int = REPLICATES,
) -> Diagnosis:
    """Judge whether variance-based smoothing fits, by records of test data, clean and by noise as (level, record).

    A second test set, such as recordings of another device, stands among the noises: `{"phone": [(1.0, record)]}`.
    Records with the labels of `record_clean` count as the same examples and are compared pairwise, others as drawn
    independently; advice speaks of the latter, and of those named in `second_sets`, as "on phone".

    Methods are fitted on `val`. Better settings are searched for on it and on `noisy_val`, the same data under some
    noise, with other kernels too if both keep their parts.
    """
    method = method or VarianceSmoothing()
    validation = [windowed(record, method.spread) for record in (val, *noisy_val)]
    others = [name for name, levels in noisy.items() if any(not same_labels(record_clean, r) for _, r in levels)]
    records = Records(val, record_clean, noisy, validation, frozenset((*others, *second_sets)))
    return diagnosed([records], method, replicates=replicates)


def diagnosed(seeds: Sequence[Records], method: VarianceSmoothing, *, replicates: int = REPLICATES) -> Diagnosis:
    """Diagnosis from the records of several seeds on the same data; values are means over seeds."""
    check(seeds)
    found = list(findings(seeds, method, replicates=replicates))
    best, gain, clear = better_settings([records.validation for records in seeds], method, replicates=replicates)
    found.append(Finding("other_settings", VALIDATION, **vars(gain)))
    return judge(found, best if clear else None, second_sets=seeds[0].second_sets)
