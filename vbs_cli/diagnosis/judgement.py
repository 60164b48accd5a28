"""Verdict from findings: it depends on whether sigma_bar rises with the errors, and on whether scores improve."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Literal

from vbs_cli.diagnosis.base import CLEAN, VALIDATION, Diagnosis, Finding, Speaks
from vbs_cli.diagnosis.search import Candidate
from vbs_cli.registry import join_names

# Behaviour of the method under a noise. "idle": errors do not rise, so there is nothing to judge; "rises": sigma_bar
# rises and scores show no difference; "harms": it rises and scores are worse than conventional or one temperature.
State = Literal["idle", "falls", "dips", "flat", "harms", "rises", "helps"]
ASTRAY: tuple[State, ...] = ("falls", "dips", "flat")
By = Mapping[str, Finding]  # question -> finding, under one condition
Where = Callable[[Sequence[str]], str]  # names of noises and second test sets -> "under a noise and on b"
METHOD = "Variance-based smoothing"


def judge(
    findings: Sequence[Finding], better: Candidate | None = None, *, second_sets: Collection[str] = ()
) -> Diagnosis:
    """Verdict on findings, given other settings that are clearly better on validation data, if there are any.

    `second_sets` are the names among those of noises that are second test sets.

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
    where = partial(places_named, second_sets=second_sets)
    told = [f"{capitalized(where([noise]))} {happened(noises[noise], states[noise])}." for noise in noises]
    summary = " ".join([*told, *caveat(clean)])
    if why := unfit(clean, states, where):
        if better is not None and rises_with_errors(clean, states):
            other = f"on validation data other settings are clearly better: {better} (vbs calibrate --auto sets such)"
            advice = f"{METHOD} does not fit as it is set, since {why}; {other}. {summary}"
            return Diagnosis("fits-with-settings", advice, findings)
        return Diagnosis(
            "does-not-fit", f"{METHOD} does not fit: {why}. {summary} {instead(clean, noises, where)}", findings
        )
    fitting = where([noise for noise, word in states.items() if word in ("helps", "rises")])
    limits = limits_of(clean, states, where)
    if better is not None:
        limits.append(f"On validation data other settings are clearly better: {better}.")
    if limits:
        advice = f"{METHOD} fits {fitting}, with care. {' '.join(limits)} {summary}"
        return Diagnosis("fits-with-settings", advice, findings)
    return Diagnosis("fits", f"{METHOD} fits {fitting}. {summary}", findings)


def places_named(names: Sequence[str], *, second_sets: Collection[str]) -> str:
    """Join names as in "under gaussian noise", "on phone" and "under gaussian and speckle noise and on phone"."""
    noises = [name for name in names if name not in second_sets]
    under = [f"under {join_names(noises)} noise"] if noises else []
    on = [name for name in names if name in second_sets]
    return " and ".join([*under, *([f"on {join_names(on)}"] if on else [])])


def capitalized(text: str) -> str:
    """Text with a capital at its beginning and nothing else changed."""
    return text[:1].upper() + text[1:]


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


def unfit(clean: By, states: Mapping[str, State], where: Where) -> str:
    """Reason why the method does not fit, or an empty string."""
    if clean["patch_accuracy"].speaks == "against":
        return "single patches are right no more often than chance"
    if set(states.values()) == {"idle"}:
        return f"there are no more errors {where(list(states))}, so nothing shows that it would help"
    if not {"helps", "rises"} & set(states.values()):
        off, worse = ([n for n, word in states.items() if word in some] for some in (ASTRAY, ("harms",)))
        reasons = [f"sigma_bar does not rise with the errors {where(off)}"] if off else []
        reasons += [f"other predictions are better {where(worse)}"] if worse else []
        return join_names(reasons)
    if "helps" not in states.values() and effect(clean, "conventional") != "for":
        return f"no score is better than without it, on clean data or {where(list(states))}"
    return ""


def rises_with_errors(clean: By, states: Mapping[str, State]) -> bool:
    """Whether sigma_bar rises under every noise that makes errors, whatever the scores say."""
    moved = {word for word in states.values() if word != "idle"}
    return bool(moved) and not moved & set(ASTRAY) and clean["patch_accuracy"].speaks != "against"


def limits_of(clean: By, states: Mapping[str, State], where: Where) -> list[str]:
    """Sentences on what a user of a method that fits must take care of."""
    wanting = [noise for noise, word in states.items() if word in (*ASTRAY, "harms")]
    limits = [f"It does not fit {where(wanting)}: do not rely on it there."] if wanting else []
    if effect(clean, "conventional") == "against":
        cost = format_finding(clean["nll_conventional"], "+.3f")
        limits.append(f"It costs something on clean data: NLL {cost}; a beta of a higher quantile smooths less there.")
    return limits


def happened(found: By, word: State) -> str:
    """What happened under a noise, in words, with the numbers that decided."""
    goes = f"sigma_bar goes to {format_finding(found['sigma_ratio'])} times its clean value"
    errors = f"the error rate rises by {format_finding(found['error_gain'])}"
    nll = f"NLL {format_finding(found['nll_conventional'], '+.3f')} against conventional"
    harmed = effect(found, "conventional") == "against"
    worse = "scores are worse than without it" if harmed else "one temperature for all does better"
    words: dict[State, str] = {
        "idle": "errors do not rise, so it tells nothing",
        "falls": f"{goes} while {errors}, the wrong way (rank correlation {format_finding(found['rank_correlation'])})",
        "dips": f"sigma_bar dips to {format_finding(found['sigma_lowest'])} times its clean value while {errors}",
        "flat": f"sigma_bar does not rise: {goes} while {errors}",
        "harms": f"{goes} as {errors}, but {worse}: {nll}, "
        f"{format_finding(found['nll_temperature'], '+.3f')} against temperature scaling",
        "rises": f"{goes} as {errors}; no score shows a difference: {nll}",
        "helps": f"{goes} as {errors}: {nll}",
    }
    return words[word]


def caveat(clean: By) -> list[str]:
    """Caveat if sigma_bar is larger for right predictions than for errors on clean data, else none."""
    auroc = clean["auroc_sigma"]
    if auroc.speaks != "against":
        return []
    return [
        f"On clean data sigma_bar is larger where predictions are right (AUROC {format_finding(auroc)} for errors)."
    ]


def instead(clean: By, noises: Mapping[str, By], where: Where) -> str:
    """Advice if the method does not fit; temperature scaling may do harm too."""
    harm = clean["temperature_nll"]
    if harm.low > 0:
        change = format_finding(harm, "+.3f")
        return f"Temperature scaling does not help here either (NLL {change}): leave predictions as they are."
    worse = [noise for noise, found in noises.items() if found["temperature_nll"].low > 0]
    care = f", but mind that {where(worse)} it is worse than none" if worse else ""
    return f"Use temperature scaling instead{care}."


def format_finding(found: Finding, form: str = ".2f") -> str:
    """Format a finding as `1.56 [1.50, 1.62]`."""
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"
