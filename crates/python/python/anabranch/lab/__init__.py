"""The laboratory: experiments of published papers and your own, in simulated networks.

::

    from anabranch import lab

    results = lab.run("time-sensitive", quick=True)
    results.plot()

A *cell* is one combination of an experiment's parameters. Each cell is run with several *seeds*. Equal cells and seeds give equal numbers,
on any number of processors and workers.
"""

from anabranch._errors import ExperimentError
from anabranch.lab._experiments import (
    AboutExperiment,
    AboutMetric,
    AboutSetting,
    Experiment,
    experiments,
)
from anabranch.lab._results import Claim, Plot, Results
from anabranch.lab._run import run

__all__ = [
    "AboutExperiment",
    "AboutMetric",
    "AboutSetting",
    "Claim",
    "Experiment",
    "ExperimentError",
    "Plot",
    "Results",
    "experiments",
    "run",
]
