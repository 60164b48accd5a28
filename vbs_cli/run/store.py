"""Store of artifacts, and the manifest that records what they were made from.

An artifact is trusted if the manifest lists it, its bytes have the recorded hash, and its recipe (settings, the
revisions of the code that makes it, and the hashes of its inputs) is the one that would be used now. The manifest is
written last, so a new file that it does not list yet is not trusted. Before a file is replaced, the manifest announces
its successor: after a crash, the hash of the bytes shows which of the two they are, and neither is lost.

Several processes can work on different parts of a run at once, each with its own manifest below `.parts`. Every process
that opens the run reads them all; the one that holds the run's lock takes finished parts over into the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from vbs_cli import files
from vbs_cli.errors import DamagedArtifact, MissingArtifact
from vbs_cli.run.layout import MANIFEST
from vbs_cli.run.legacy import upgraded

PARTS = ".parts"
FORMAT = 1
CURRENT, MISSING, STALE, DAMAGED = "up to date", "missing", "stale", "damaged"
CLEANED = "cleaned"  # its bytes were deleted to save space; what was made from them stands


@dataclass(frozen=True)
class Recipe:
    """Everything that an artifact is made from: stage, settings, names of other artifacts, revisions of the code."""

    stage: str
    settings: Mapping[str, Any]
    inputs: tuple[str, ...] = ()
    revisions: Mapping[str, int] = field(default_factory=dict)  # {"metric brier": 1}, raised when results change


@dataclass(frozen=True)
class Entry:
    """Record of an artifact in the manifest."""

    sha256: str
    size: int
    stage: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]  # name -> sha256
    cleaned: bool = False  # whether the bytes were deleted to save space
    revisions: Mapping[str, int] | None = None  # None: made before revisions were recorded


@dataclass(frozen=True)
class State:
    """State of an artifact: whether it can be used as it is, and if not, why."""

    kind: str  # CURRENT, CLEANED, MISSING, STALE or DAMAGED
    why: str = ""

    @property
    def current(self) -> bool:
        return self.kind == CURRENT

    @property
    def stands(self) -> bool:
        """Whether artifacts made from this one remain up to date."""
        return self.kind in (CURRENT, CLEANED)

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}" if self.why else self.kind


@dataclass
class Store:
    """Artifacts of one folder, keyed by their path below it."""

    folder: Path
    part: str = ""  # name of the part of the run that this object writes for, if not for all of it
    entries: dict[str, Entry] = field(default_factory=dict)
    written: int = 0  # artifacts made or cleaned through this object
    _own: dict[str, Entry] = field(default_factory=dict, repr=False)  # entries of the part
    _checked: dict[str, tuple[int, int, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        # The parts first: one that is taken over meanwhile is in the manifest by the time that is read.
        parts = [self._load(self._part_manifest(part)) for part in self.parts()]
        self.entries = self._load(self.folder / MANIFEST)
        for made in parts:
            self.entries |= made
        self._own = self._load(self._manifest) if self.part else {}

    def parts(self) -> list[str]:
        """Names of the parts with entries that the run's own manifest has not taken over yet."""
        suffix = f".{MANIFEST}"
        return sorted(path.name.removesuffix(suffix) for path in (self.folder / PARTS).glob(f"*{suffix}"))

    def take_over(self, part: str) -> None:
        """Take the entries of a part over into this manifest; no process may be working on the part."""
        made = self._load(self._part_manifest(part))
        if made:
            self.written += len(made)
            self.entries |= made
            self._save()
        self._part_manifest(part).unlink(missing_ok=True)

    def _part_manifest(self, part: str) -> Path:
        return self.folder / PARTS / f"{part}.{MANIFEST}"

    @property
    def _manifest(self) -> Path:
        return self._part_manifest(self.part) if self.part else self.folder / MANIFEST

    def _load(self, path: Path) -> dict[str, Entry]:
        """Entries of a manifest; where a crash interrupted a replacement, the bytes on disk decide between the two."""
        try:
            values = files.read_json(path)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        try:
            if values["format"] != FORMAT:
                raise KeyError
            entries = {name: Entry(**upgraded(entry)) for name, entry in values["artifacts"].items()}
            announced = {name: Entry(**upgraded(entry)) for name, entry in values["replacing"].items()}
        except (KeyError, TypeError, AttributeError):
            raise DamagedArtifact(f"{path} is damaged", hint=f"rm {path}; everything is made again") from None
        arrived = {name: entry for name, entry in announced.items() if self._has_bytes(name, entry)}
        return entries | arrived

    def state(self, name: str, recipe: Recipe) -> State:
        """State of an artifact compared with the recipe that would make it now; damage is a state, not an error."""
        entry = self.entries.get(name)
        if entry is None or not (entry.cleaned or (self.folder / name).is_file()):
            return State(MISSING)
        if not (entry.cleaned or self._intact(name, entry)):
            return State(DAMAGED, "its hash is not the recorded one")
        why = difference(entry, recipe, self.entries)
        return State(STALE, why) if why else State(CLEANED if entry.cleaned else CURRENT)

    def checked_state(self, name: str, recipe: Recipe) -> State:
        """State of an artifact; a damaged file is an error, not a reason to make it again."""
        state = self.state(name, recipe)
        if state.kind == DAMAGED:
            raise self._damaged(name)
        return state

    def is_current(self, name: str, recipe: Recipe) -> bool:
        """Whether an artifact is up to date; a damaged file is an error."""
        return self.checked_state(name, recipe).current

    def write(self, name: str, data: bytes, recipe: Recipe) -> None:
        """Write an artifact and record it in the manifest."""
        inputs = {source: self.sha256(source) for source in recipe.inputs}
        sha256, settings, revisions = files.sha256_of(data), dict(recipe.settings), dict(recipe.revisions)
        entry = Entry(sha256, len(data), recipe.stage, settings, inputs, revisions=revisions)
        if name in self.entries:
            self._save(replacing={name: entry})
        files.write_bytes(self.folder / name, data)
        self.written += 1
        self.entries[name] = entry
        if self.part:
            self._own[name] = entry
        self._save()

    def write_if_changed(self, name: str, data: bytes, recipe: Recipe) -> None:
        """Write an artifact unless the same bytes, made by the same recipe, are there already."""
        entry = self.entries.get(name)
        if entry is None or entry.sha256 != files.sha256_of(data) or not self.is_current(name, recipe):
            self.write(name, data, recipe)

    def has(self, name: str) -> bool:
        """Whether the manifest lists an artifact and its file exists."""
        return name in self.entries and (self.folder / name).is_file()

    def read(self, name: str) -> bytes:
        """Read the bytes of an artifact and check their hash."""
        entry = self._entry(name)
        try:
            data = (self.folder / name).read_bytes()
        except FileNotFoundError:
            raise self._missing(name) from None
        if len(data) != entry.size or files.sha256_of(data) != entry.sha256:
            raise self._damaged(name)
        return data

    def remove(self, name: str) -> None:
        """Remove an artifact from the manifest, then delete its file."""
        if self.entries.pop(name, None) is not None:
            self._save()
        (self.folder / name).unlink(missing_ok=True)

    def clean(self, names: Iterable[str]) -> None:
        """Delete the bytes of artifacts; what was made from them stays up to date, since their hashes are kept."""
        names = list(names)
        self.entries |= {name: replace(self._entry(name), cleaned=True) for name in names}
        self.written += len(names)
        self._save()
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def sha256(self, name: str) -> str:
        return self._entry(name).sha256

    def _entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise self._missing(name)
        return self.entries[name]

    def _missing(self, name: str) -> MissingArtifact:
        return MissingArtifact(f"{self.folder / name} is missing", hint="vbs run makes what is missing")

    def _damaged(self, name: str) -> DamagedArtifact:
        path = self.folder / name
        return DamagedArtifact(
            f"{path} is damaged: its hash is not the recorded one", hint=f"rm '{path}' and run again to remake it"
        )

    def _intact(self, name: str, entry: Entry) -> bool:
        """Whether a file has the recorded hash; it is hashed again only if its time or size has changed."""
        path = self.folder / name
        status = path.stat()
        if status.st_size != entry.size:
            return False
        known = self._checked.get(name)
        if known is None or known[:2] != (status.st_mtime_ns, status.st_size):
            known = (status.st_mtime_ns, status.st_size, files.sha256_of_file(path))
            self._checked[name] = known
        return known[2] == entry.sha256

    def _has_bytes(self, name: str, entry: Entry) -> bool:
        path = self.folder / name
        return path.is_file() and files.sha256_of_file(path) == entry.sha256

    def _save(self, replacing: Mapping[str, Entry] | None = None) -> None:
        values = {"artifacts": self._own if self.part else self.entries, "replacing": replacing or {}}
        named = {key: {name: asdict(e) for name, e in sorted(entries.items())} for key, entries in values.items()}
        files.write_bytes(self._manifest, files.to_json({"format": FORMAT, **named}))


def difference(entry: Entry, recipe: Recipe, entries: Mapping[str, Entry]) -> str:
    """Reason why an entry is not what the recipe would give, or ""."""
    if entry.revisions is None and recipe.revisions:
        return "it was made before vbs recorded the revision of its code"
    if entry.settings != recipe.settings:
        return change("", entry.settings, recipe.settings)
    if why := other_code(entry.revisions or {}, recipe.revisions):
        return why
    for name in recipe.inputs:
        if name not in entries:
            return f"{name} is gone"
        if entry.inputs.get(name) != entries[name].sha256:
            return f"{name} has changed" if name in entry.inputs else f"{name} is new"
    for name in set(entry.inputs) - set(recipe.inputs):
        return f"{name} is no longer part of it"
    return ""


def other_code(was: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Reason why the present code may make something else than code of earlier revisions did, or ""."""
    for name in dict.fromkeys((*now, *was)):
        if was.get(name) != now.get(name):
            before, after = (f"revision {number}" if number else "none" for number in (was.get(name), now.get(name)))
            return f"the code of {name} has changed ({before}, now {after})"
    return ""


def change(name: str, was: Any, now: Any) -> str:
    """Describe the first difference between nested settings: "methods.vbs.alpha was 1.0, now 2.0"."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in (*now, *was):
            if was.get(key) != now.get(key):
                return change(f"{name}.{key}" if name else key, was.get(key), now.get(key))
    if isinstance(was, list) and isinstance(now, list):
        different = [item for item in (*now, *was) if (item in now) != (item in was)]
        if different:
            return f"{different[0]} is {'new' if different[0] in now else 'no longer'} among the {name}"
    before, after = ("unset" if value is None else value for value in (was, now))
    return f"{name} was {before}, now {after}"
