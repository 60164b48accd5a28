"""Verdict from findings: it depends on whether sigma_bar rises with the errors, and on whether scores improve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from vbs_cli.diagnosis.base import CLEAN, VALIDATION, Diagnosis, Finding, Speaks
from vbs_cli.diagnosis.search import Candidate
from vbs_cli.registry import join_names

# Behaviour of the method under a noise. "idle": errors do not rise, so there is nothing to judge; "rises": sigma_bar
# rises and scores show no difference; "harms": it rises and scores are worse than conventional or one temperature.
State = Literal["idle", "falls", "dips", "flat", "harms", "rises", "helps"]
ASTRAY: tuple[State, ...] = ("falls", "dips", "flat")
By = Mapping[str, Finding]  # question -> finding, under one condition
METHOD = "Variance-based smoothing"


def judge(findings: Sequence[Finding], better: Candidate | None = None) -> Diagnosis:
    """Verdict on findings, given other settings that are clearly better on validation data, if there are any.

    The method fits if sigma_bar rises with the errors under noise and a score improves somewhere. It fits with settings
    if that holds under some noises only, costs something on clean data, or other settings are better; otherwise it does
    not fit. No settings make up for a sigma_bar that does not rise.
    """
    places: dict[str, dict[str, Finding]] = {}
    for each in findings:
        places.setdefault(each.noise, {})[each.question] = each
    clean = places.pop(CLEAN)
    noises = {noise: found for noise, found in places.items() if noise != VALIDATION}
    states = {noise: state(found) for noise, found in noises.items()}
    summary = " ".join([*(sentence(noise, noises[noise], states[noise]) for noise in noises), *caveat(clean)])
    if why := unfit(clean, states):
        if better is not None and rises_with_errors(clean, states):
            other = f"on validation data other settings are clearly better: {better} (vbs calibrate --auto sets such)"
            advice = f"{METHOD} does not fit as it is set, since {why}; {other}. {summary}"
            return Diagnosis("fits-with-settings", advice, findings)
        return Diagnosis("does-not-fit", f"{METHOD} does not fit: {why}. {summary} {instead(clean, noises)}", findings)
    fitting = [noise for noise, word in states.items() if word in ("helps", "rises")]
    limits = limits_of(clean, states)
    if better is not None:
        limits.append(f"On validation data other settings are clearly better: {better}.")
    if limits:
        advice = f"{METHOD} fits under {join_names(fitting)} noise, with care. {' '.join(limits)} {summary}"
        return Diagnosis("fits-with-settings", advice, findings)
    return Diagnosis("fits", f"{METHOD} fits under {join_names(fitting)} noise. {summary}", findings)


def state(found: By) -> State:
    """Behaviour of the method under one noise."""
    if not found["error_gain"].low > 0:
        return "idle"
    if "against" in (found["rank_correlation"].speaks, found["sigma_ratio"].speaks):
        return "falls"
    if found["sigma_lowest"].speaks == "against":
        return "dips"
    if found["sigma_ratio"].speaks != "for":
        return "flat"
    effects = [effect(found, other) for other in ("conventional", "temperature")]
    if "against" in effects:
        return "harms"
    return "helps" if effects[0] == "for" else "rises"


def effect(found: By, other: str) -> Speaks:
    """Whether the method is better than another: by NLL, a proper score, or by ECE if NLL shows no difference."""
    by_nll = found[f"nll_{other}"].speaks
    return found[f"ece_{other}"].speaks if by_nll == "neutral" else by_nll


def unfit(clean: By, states: Mapping[str, State]) -> str:
    """Reason why the method does not fit, or an empty string."""
    if clean["patch_accuracy"].speaks == "against":
        return "single patches are right no more often than chance"
    if set(states.values()) == {"idle"}:
        return "no noise made more errors, so nothing shows that it would help"
    if not {"helps", "rises"} & set(states.values()):
        off, worse = ([n for n, word in states.items() if word in some] for some in (ASTRAY, ("harms",)))
        reasons = [f"sigma_bar does not rise with the errors under {join_names(off)} noise"] if off else []
        reasons += [f"other predictions are better under {join_names(worse)} noise"] if worse else []
        return join_names(reasons)
    if "helps" not in states.values() and effect(clean, "conventional") != "for":
        return "no score is better than without it, on clean data or under noise"
    return ""


def rises_with_errors(clean: By, states: Mapping[str, State]) -> bool:
    """Whether sigma_bar rises under every noise that makes errors, whatever the scores say."""
    moved = {word for word in states.values() if word != "idle"}
    return bool(moved) and not moved & set(ASTRAY) and clean["patch_accuracy"].speaks != "against"


def limits_of(clean: By, states: Mapping[str, State]) -> list[str]:
    """Sentences on what a user of a method that fits must take care of."""
    wanting = [noise for noise, word in states.items() if word in (*ASTRAY, "harms")]
    limits = [f"It does not fit under {join_names(wanting)} noise: do not rely on it there."] if wanting else []
    if effect(clean, "conventional") == "against":
        cost = format_finding(clean["nll_conventional"], "+.3f")
        limits.append(f"It costs something on clean data: NLL {cost}; a beta of a higher quantile smooths less there.")
    return limits


def sentence(noise: str, found: By, word: State) -> str:
    """Sentence on what happened under a noise, with the numbers that decided."""
    goes = f"sigma_bar goes to {format_finding(found['sigma_ratio'])} times its clean value"
    errors = f"the error rate rises by {format_finding(found['error_gain'])}"
    nll = f"NLL {format_finding(found['nll_conventional'], '+.3f')} against conventional"
    harmed = effect(found, "conventional") == "against"
    worse = "scores are worse than without it" if harmed else "one temperature for all does better"
    happened = {
        "idle": "errors do not rise, so it tells nothing",
        "falls": f"{goes} while {errors}, the wrong way (rank correlation {format_finding(found['rank_correlation'])})",
        "dips": f"sigma_bar dips to {format_finding(found['sigma_lowest'])} times its clean value while {errors}",
        "flat": f"sigma_bar does not rise: {goes} while {errors}",
        "harms": f"{goes} as {errors}, but {worse}: {nll}, "
        f"{format_finding(found['nll_temperature'], '+.3f')} against temperature scaling",
        "rises": f"{goes} as {errors}; no score shows a difference: {nll}",
        "helps": f"{goes} as {errors}: {nll}",
    }
    return f"Under {noise} noise {happened[word]}."


def caveat(clean: By) -> list[str]:
    """Caveat if sigma_bar is larger for right predictions than for errors on clean data, else none."""
    auroc = clean["auroc_sigma"]
    if auroc.speaks != "against":
        return []
    return [
        f"On clean data sigma_bar is larger where predictions are right (AUROC {format_finding(auroc)} for errors)."
    ]


def instead(clean: By, noises: Mapping[str, By]) -> str:
    """Advice if the method does not fit; temperature scaling may do harm too."""
    harm = clean["temperature_nll"]
    if harm.low > 0:
        change = format_finding(harm, "+.3f")
        return f"Temperature scaling does not help here either (NLL {change}): leave predictions as they are."
    worse = [noise for noise, found in noises.items() if found["temperature_nll"].low > 0]
    care = f", but mind that under {join_names(worse)} noise it is worse than none" if worse else ""
    return f"Use temperature scaling instead{care}."


def format_finding(found: Finding, form: str = ".2f") -> str:
    """Format a finding as `1.56 [1.50, 1.62]`."""
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"
