"""Compares the processor time of a sweep on a Dask cluster, one of whose two workers is killed, with that of one job in one process.

Keeps the numbers in `results/python/sweep.json`. The time of the processes' start (Python, imports) is counted apart, because it does not grow
with the sweep. Run by: target/python/bin/python crates/python/measure/sweep.py
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow
from anabranch import lab
from anabranch.lab import _run
from distributed import Client


def used(process: psutil.Process) -> float:
    """The processor time of a process so far, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Measures both and writes the file."""
    parser = argparse.ArgumentParser(description="Compares the processor time of a sweep on a cluster with a local one.")
    parser.add_argument("--experiment", default="nr-sack-forward-tsn")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("results/python/sweep.json"))
    arguments = parser.parse_args()
    options: dict[str, Any] = {"quick": True, "seeds": arguments.seeds, "progress": False}
    here = psutil.Process()
    before = used(here)
    local = lab.run(arguments.experiment, jobs=1, **options)
    of_local = used(here) - before
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "scheduler.json"
        dask = [sys.executable, "-m", "dask"]
        start = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        scheduler = psutil.Popen(start, stderr=subprocess.DEVNULL)
        while not file.exists() or not file.read_text():
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        start = [*dask, "worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        start += ["--local-directory", directory]
        workers = [psutil.Popen(start, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            with Client(address) as client:
                client.wait_for_workers(2)
                client.run(_run.build)
                processes = [scheduler, *workers, here]
                begun = [used(process) for process in processes]
                killed: list[float] = []

                @contextlib.contextmanager
                def killing_bar(sweep: Any, _: object) -> Iterator[Callable[[int], None]]:
                    def show(done: int) -> None:
                        if done >= sweep.total // 2 and not killed:
                            killed.append(used(workers[0]))
                            workers[0].kill()
                            workers[0].wait()

                    yield show

                vars(_run)["_bar"] = killing_bar
                on_cluster = lab.run(arguments.experiment, client=client, **options)
                ended = [used(scheduler), killed[0], used(workers[1]), used(here)]
        finally:
            for process in (*workers, scheduler):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
    of_cluster = sum(ended) - sum(begun)
    record = {
        "experiment": arguments.experiment,
        "runs": len(local),
        "equal_tables": pyarrow.table(on_cluster).equals(pyarrow.table(local)),
        "one_job_s": round(of_local, 2),
        "cluster_with_a_killed_worker_s": round(of_cluster, 2),
        "scheduler_killed_worker_worker_client_s": [round(end - begin, 2) for end, begin in zip(ended, begun, strict=True)],
        "start_of_the_processes_s": round(sum(begun[:3]), 2),
        "ratio": round(of_cluster / of_local, 3),
        "version": _run.build(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
