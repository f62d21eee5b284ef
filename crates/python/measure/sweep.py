"""Compares the processor time of a sweep on a Dask cluster, one of whose two workers is killed, with that of one job in one process.

The processor time of equal work differs by more than a tenth from one minute to the next where a machine is shared, and two processors that work
at once are slower than one. So each round measures, one after the other: one job, two jobs in one process, and the cluster. The ratios are the
medians over the rounds.

Keeps the numbers in `results/python/sweep.json`. The time of the processes' start (Python, imports) is counted apart, because it does not grow
with the sweep. Run by: target/python/bin/python crates/python/measure/sweep.py
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow
from anabranch import lab
from anabranch.lab import _run
from distributed import Client


def used(process: psutil.Process) -> float:
    """The processor time of a process so far, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


class OnCluster(NamedTuple):
    """The processor time of a sweep on a cluster, in seconds."""

    table: pyarrow.Table
    scheduler: float
    killed_worker: float
    worker: float
    client: float
    #: Of all processes, before the sweep.
    start: float

    def total(self) -> float:
        """The time of the sweep in all processes."""
        return self.scheduler + self.killed_worker + self.worker + self.client


def locally(experiment: str, jobs: int, options: dict[str, Any]) -> tuple[pyarrow.Table, float]:
    """The table of a sweep in this process, and its processor time."""
    here = psutil.Process()
    before = used(here)
    table = pyarrow.table(lab.run(experiment, jobs=jobs, **options))
    return table, used(here) - before


def on_cluster(experiment: str, options: dict[str, Any]) -> OnCluster:
    """Runs a sweep on a new cluster of two workers. One is killed when half of the runs are done."""
    here = psutil.Process()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as started:

        def start(*arguments: str) -> psutil.Popen:
            process = psutil.Popen([sys.executable, "-m", "dask", *arguments], stderr=subprocess.DEVNULL)

            @started.callback
            def _() -> None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
                process.wait()

            return process

        file = Path(directory) / "scheduler.json"
        local = ["--host", "127.0.0.1", "--no-dashboard"]
        scheduler = start("scheduler", *local, "--port", "0", "--scheduler-file", str(file))
        while not file.exists() or not file.read_text():
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        alone = [*local, "--nthreads", "1", "--no-nanny", "--local-directory", directory]
        workers = [start("worker", address, *alone) for _ in range(2)]
        with Client(address) as client:
            client.wait_for_workers(2)
            client.run(_run.build)
            begun = [used(process) for process in [scheduler, *workers, here]]
            killed: list[float] = []

            @contextlib.contextmanager
            def killing_bar(sweep: Any, _: object) -> Iterator[Callable[[int], None]]:
                def show(done: int) -> None:
                    if done >= sweep.total // 2 and not killed:
                        killed.append(used(workers[0]))
                        workers[0].kill()
                        workers[0].wait()

                yield show

            usual = _run._bar
            vars(_run)["_bar"] = killing_bar
            try:
                table = pyarrow.table(lab.run(experiment, client=client, **options))
            finally:
                vars(_run)["_bar"] = usual
            ended = [used(scheduler), killed[0], used(workers[1]), used(here)]
    of_scheduler, of_killed, of_worker, of_client = (end - begin for end, begin in zip(ended, begun, strict=True))
    return OnCluster(table, of_scheduler, of_killed, of_worker, of_client, start=sum(begun[:3]))


def main() -> None:
    """Measures and writes the file."""
    parser = argparse.ArgumentParser(description="Compares the processor time of a sweep on a cluster with a local one.")
    parser.add_argument("--experiment", default="nr-sack-forward-tsn")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=Path("results/python/sweep.json"))
    arguments = parser.parse_args()
    options: dict[str, Any] = {"quick": True, "seeds": arguments.seeds, "progress": False}
    rounds: list[dict[str, Any]] = []
    equal, runs = True, 0
    for number in range(arguments.rounds):
        table, one_job = locally(arguments.experiment, 1, options)
        of_two, two_jobs = locally(arguments.experiment, 2, options)
        cluster = on_cluster(arguments.experiment, options)
        equal = equal and of_two.equals(table) and cluster.table.equals(table)
        runs = len(table)
        rounds.append(
            {
                "one_job_s": round(one_job, 2),
                "two_jobs_s": round(two_jobs, 2),
                "cluster_with_a_killed_worker_s": round(cluster.total(), 2),
                "scheduler_killed_worker_worker_client_s": [round(time, 2) for time in cluster[1:5]],
                "start_of_the_processes_s": round(cluster.start, 2),
                "ratio": round(cluster.total() / one_job, 3),
                "ratio_to_two_jobs": round(cluster.total() / two_jobs, 3),
                "ratio_of_two_jobs_to_one": round(two_jobs / one_job, 3),
            }
        )
        print(f"{number + 1}/{arguments.rounds}: {json.dumps(rounds[-1])}", flush=True)
        # A measurement that is ended early keeps the rounds so far.
        write(arguments, runs, equal, rounds)


def write(arguments: argparse.Namespace, runs: int, equal: bool, rounds: list[dict[str, Any]]) -> None:
    """Writes the file."""
    ratios = ["ratio", "ratio_to_two_jobs", "ratio_of_two_jobs_to_one"]
    record = {
        "experiment": arguments.experiment,
        "runs": runs,
        "equal_tables": equal,
        **{f"median_{name}": statistics.median(one[name] for one in rounds) for name in ratios},
        "rounds": rounds,
        "version": _run.build(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
