"""Experiments: those of the laboratory, files, and Python objects."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from anabranch import _native
from anabranch._errors import ExperimentError


@dataclass(frozen=True, kw_only=True)
class AboutSetting:
    """A setting of an experiment that `run` can change."""

    name: str
    unit: str
    about: str
    default: str
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class AboutMetric:
    """A number that each run gives."""

    name: str
    unit: str
    about: str


@dataclass(frozen=True, kw_only=True)
class AboutExperiment:
    """An experiment of the laboratory."""

    name: str
    question: str
    #: The authors and the paper.
    source: str
    #: The places on each axis of the grid of cells.
    axes: dict[str, list[str]]
    settings: list[AboutSetting]
    metrics: list[AboutMetric]
    #: The titles of the figures by their names.
    figures: dict[str, str]
    #: The numbers of cells and of seeds at full length.
    cells: int
    seeds: int


def experiments() -> list[AboutExperiment]:
    """All experiments of the laboratory."""

    def about(fields: dict[str, Any]) -> AboutExperiment:
        fields["settings"] = [AboutSetting(**setting) for setting in fields["settings"]]
        fields["metrics"] = [AboutMetric(**metric) for metric in fields["metrics"]]
        fields["figures"] = {figure["name"]: figure["title"] for figure in fields["figures"]}
        return AboutExperiment(**fields)

    return [about(fields) for fields in json.loads(_native.list_experiments())]


@dataclass(kw_only=True)
class Experiment:
    """An experiment of your own. The fields are the keys of an experiment's TOML file, which the book describes (*The laboratory*).

    Tables are dictionaries. Times are texts like "20ms", and links are texts like "rate=2mbit,delay=40ms,queue=50p".
    """

    name: str
    paths: Sequence[Mapping[str, Any]]
    traffic: Sequence[Mapping[str, Any]]
    variants: Sequence[Mapping[str, Any]]
    question: str | None = None
    seeds: int | None = None
    seconds: int | None = None
    metrics: Sequence[str] | None = None
    sweep: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    tcp: Mapping[str, Any] | None = None


class HasFields(Protocol):
    """Any object with the fields of `Experiment`."""

    name: str


#: What `run` accepts as an experiment.
AnyExperiment = str | os.PathLike[str] | Mapping[str, Any] | Experiment | HasFields


def _fields(value: Any) -> Any:
    """A value of JSON: without fields that are `None`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(name): _fields(field) for name, field in value.items() if field is not None}
    if isinstance(value, list | tuple):
        return [_fields(field) for field in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "__dict__"):
        return _fields(vars(value))
    raise ExperimentError(f"an experiment has texts, numbers, lists and dictionaries, not {value!r}")


def source(experiment: AnyExperiment) -> tuple[str, tuple[str, str] | None]:
    """The name of an experiment. If it is not one of the laboratory, also its TOML text and the directory of the files that it names."""
    if isinstance(experiment, str) and not experiment.endswith(".toml"):
        return experiment, None
    if isinstance(experiment, str | os.PathLike):
        path = Path(experiment)
        try:
            return str(path), (path.read_text(encoding="utf-8"), str(path.resolve().parent))
        except OSError as error:
            raise ExperimentError(f"{path}: cannot read the file: {error}; check its name and permissions") from None
    fields = _fields(experiment)
    return str(fields.get("name", "the experiment")), (_native.toml_from_json(json.dumps(fields)), os.getcwd())
