"""Running an experiment: on the processors of this machine, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch import _native
from anabranch._errors import ExperimentError
from anabranch.lab._experiments import AnyExperiment, source
from anabranch.lab._results import Results

if TYPE_CHECKING:
    from distributed import Client

#: Seconds between two writes of the kept results.
KEEP_EVERY = 10.0


class Spec(NamedTuple):
    """All that a worker needs to know about a sweep."""

    name: str
    toml: tuple[str, str] | None
    extent: str
    seeds: int | None
    settings: tuple[tuple[str, str], ...]
    only: tuple[tuple[str, str], ...]
    version: str

    def sweep(self) -> _native.Sweep:
        return _native.Sweep(
            self.name, self.toml, self.extent, self.seeds, list(self.settings), list(self.only), self.version
        )


@functools.cache
def build() -> str:
    """The version with a hash of the native part, because another build may give other numbers."""
    assert _native.__file__ is not None
    digest = hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()
    return f"{version_of('anabranch')}+{digest[:8]}"


def _processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _text(value: float | str) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _places(only: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    places = []
    for axis, chosen in (only or {}).items():
        several = chosen if isinstance(chosen, list | tuple | set | frozenset) else [chosen]
        places += [(axis, _text(place)) for place in several]
    return tuple(places)


def run(
    experiment: AnyExperiment,
    *,
    quick: bool = False,
    short: bool = False,
    seeds: int | None = None,
    settings: Mapping[str, float | str] | None = None,
    only: Mapping[str, float | str | Sequence[float | str]] | None = None,
    client: Client | None = None,
    jobs: int | None = None,
    results: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Results:
    """Runs an experiment and returns its results. Ctrl-C ends the runs.

    experiment: a name from `experiments()`, a TOML file, or an object with the fields of `Experiment`.
    quick: run fewer cells, with shorter runs and fewer seeds.
    short: run all cells, with shorter runs and fewer seeds.
    seeds: the number of seeds for each cell. The default is the experiment's.
    settings: other values for settings of the experiment, such as {"rtt": 50}.
    only: only the cells at these places, such as {"loss": [0.05, 0.1]}.
    client: a `dask.distributed.Client`: its workers make the runs. The default is this process.
    jobs: the number of concurrent runs in this process. The default is the number of processors.
    results: a directory that keeps the numbers of every run, as `anabranch lab run --results` does. Runs that are there are not made again.
    progress: whether a progress bar is shown. The default is yes on a terminal and in a notebook.
    """
    if quick and short:
        raise ExperimentError("quick and short: choose one of them")
    name, toml = source(experiment)
    extent = "quick" if quick else "short" if short else "full"
    changed = tuple((setting, _text(value)) for setting, value in (settings or {}).items())
    spec = Spec(name, toml, extent, seeds, changed, _places(only), build())
    sweep = spec.sweep()
    kept = None if results is None else Kept(Path(results), sweep)
    try:
        with _bar(sweep, progress) as show:
            if client is None:
                sweep.run(jobs or _processors(), show)
            else:
                _on_cluster(client, spec, sweep, show, kept)
    finally:
        if kept is not None:
            kept.write()
    return Results(sweep)


class Kept:
    """The files with the numbers of an experiment's runs. `anabranch lab run --results` has the same files."""

    def __init__(self, directory: Path, sweep: _native.Sweep) -> None:
        self.sweep = sweep
        self.directory = directory
        self.written = time.monotonic()
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path = self._path("csv")
            try:
                sweep.read_csv(path.read_text(encoding="utf-8"))
            except ExperimentError as error:
                problem = f"cannot continue from {path}: {error}; move the file away to start from the beginning"
                raise ExperimentError(f"results: {problem}") from None

    def _path(self, kind: str) -> Path:
        return self.directory / f"{self.sweep.file_name}.{kind}"

    def write(self) -> None:
        """Replaces both files, each in one step."""
        for kind, text in (("csv", self.sweep.to_csv()), ("json", self.sweep.to_json())):
            path = self._path(kind)
            unfinished = path.with_name(f"{path.name}.new")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
        self.written = time.monotonic()

    def write_now_and_then(self) -> None:
        """Writes the files if the last time was a while ago."""
        if time.monotonic() - self.written >= KEEP_EVERY:
            self.write()


def _in_notebook() -> bool:
    """Whether a notebook runs this program. Other programs may import the libraries of notebooks too."""
    if "IPython" not in sys.modules:
        return False
    shell: Any = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextlib.contextmanager
def _bar(sweep: _native.Sweep, progress: bool | None) -> Iterator[Callable[[int], None]]:
    # Without the package of the bars, which programs that only send messages do not need, there are none.
    if importlib.util.find_spec("tqdm") is None:
        yield lambda done: None
        return
    in_notebook = _in_notebook()
    has_widgets = in_notebook and importlib.util.find_spec("ipywidgets") is not None
    bars: Any = importlib.import_module("tqdm.notebook" if has_widgets else "tqdm").tqdm
    # For tqdm, `None` means: only on a terminal.
    disabled = (False if in_notebook else None) if progress is None else not progress
    known = sweep.total - len(sweep.todo())
    with bars(total=sweep.total, initial=known, desc=sweep.name, unit="run", disable=disabled) as bar:

        def show(done: int) -> None:
            bar.update(max(0, done - bar.n))

        yield show


@functools.lru_cache(maxsize=16)
def _sweep_of(spec: Spec) -> _native.Sweep:
    return spec.sweep()


def trials(spec: Spec, runs: list[tuple[int, int]]) -> list[tuple[int, int, list[float]]]:
    """Makes runs, on a worker: the cell, the seed and the numbers of each."""
    if spec.version != build():
        raise ExperimentError(
            f"the worker has anabranch {build()}, and the client has {spec.version}: install the same wheel everywhere"
        )
    sweep = _sweep_of(spec)
    return [(cell, seed, sweep.trial(cell, seed)) for cell, seed in runs]


#: The tasks for each thread of the cluster. More tasks spread the runs better and cost more time of the scheduler.
TASKS_A_THREAD = 16
#: The most runs of a task: a lost worker loses so many.
MOST_RUNS = 32


def _on_cluster(
    client: Client, spec: Spec, sweep: _native.Sweep, show: Callable[[int], None], kept: Kept | None
) -> None:
    try:
        from distributed import as_completed
    except ImportError:
        raise ExperimentError("client needs Dask: pip install 'anabranch[dask]'") from None
    if client.asynchronous:
        raise ExperimentError("client is asynchronous: make it without asynchronous=True")
    todo = sweep.todo()
    threads = max(1, sum(client.nthreads().values()))
    size = min(MOST_RUNS, max(1, len(todo) // (threads * TASKS_A_THREAD)))
    tasks = [todo[first : first + size] for first in range(0, len(todo), size)]
    # A task whose worker is lost starts again on another worker.
    futures = client.map(functools.partial(trials, spec), tasks, pure=False, retries=2, key="anabranch-lab")
    done = sweep.total - len(todo)
    show(done)
    try:
        for future, numbers in as_completed(futures, with_results=True):
            # The cluster would compute a finished task again if its worker were lost while this process holds the future.
            future.release()
            for cell, seed, values in numbers:
                sweep.note(cell, seed, values)
            done += len(numbers)
            show(done)
            if kept is not None:
                kept.write_now_and_then()
    finally:
        client.cancel([future for future in futures if future.status == "pending"])
