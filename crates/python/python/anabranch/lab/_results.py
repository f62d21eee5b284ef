"""The results of an experiment: a table, claims and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch import _native
from anabranch._errors import ExperimentError


@dataclass(frozen=True)
class Plot:
    """A picture. Notebooks show it."""

    name: str
    title: str
    #: The picture as an SVG file.
    svg: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        # Notebooks take the element alone, without the XML declaration.
        return self.svg[self.svg.index("<svg") :]

    def __repr__(self) -> str:
        return f"Plot({self.name!r}, {self.title!r})"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and whether the numbers confirm it."""

    claim: str
    #: The result as the paper has it.
    paper: str
    #: "holds", "fails", "open" or "not run".
    verdict: str
    #: All that is known about the judgement.
    details: Mapping[str, Any]


class Results:
    """The numbers of all runs, as a table with a row for each cell and seed.

    The table has the Arrow PyCapsule interface: `pandas.DataFrame.from_arrow(results)`, `polars.DataFrame(results)`,
    `pyarrow.table(results)`. Numbers that a run does not have are null. The columns are those of `anabranch lab run --csv`.
    """

    def __init__(self, sweep: _native.Sweep) -> None:
        self._sweep = sweep
        self._table = sweep.table()

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return self._sweep.name

    @property
    def figures(self) -> list[str]:
        """The names of the figures that `plot` can draw from these results."""
        return [name for name, _, _ in self._sweep.figures()]

    def plot(self, figure: str | None = None) -> Plot:
        """Draws a figure: the one of this name, or the first."""
        drawn = {name: Plot(name, title, svg) for name, title, svg in self._sweep.figures()}
        if not drawn:
            raise ExperimentError(
                f"no figure of {self.experiment} can be drawn from these results: figures need all cells and unchanged settings"
            )
        if figure is None:
            return next(iter(drawn.values()))
        if figure not in drawn:
            raise ExperimentError(f"{self.experiment} has no figure {figure!r}; it has: {', '.join(drawn)}")
        return drawn[figure]

    def plots(self) -> list[Plot]:
        """All figures that can be drawn from these results."""
        return [Plot(name, title, svg) for name, title, svg in self._sweep.figures()]

    @property
    def claims(self) -> list[Claim]:
        """The claims of the paper, judged by these results."""
        judged = json.loads(self._sweep.claims())
        return [Claim(claim["claim"], claim["paper"], claim["verdict"], claim) for claim in judged]

    def summary(self) -> list[str]:
        """A line for each cell and metric: the mean over the seeds, and half the width of its 95 % confidence interval."""
        return self._sweep.summary()

    def to_csv(self) -> str:
        """The table as CSV."""
        return self._sweep.to_csv()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()

    def __len__(self) -> int:
        return self._sweep.total

    def __repr__(self) -> str:
        return f"<Results of {self.experiment}: {len(self)} runs>"
