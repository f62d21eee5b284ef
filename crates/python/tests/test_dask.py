"""Sweeps on a Dask cluster of two worker processes, one of which is killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from anabranch import _native, lab
from anabranch.lab import _run
from distributed import Client
from test_lab import FIELDS, sensor

SEEDS = 30


class Cluster:
    """A scheduler and two workers, without nannies: a killed worker does not come back."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        file = directory / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        self.address: str = self._address(file)
        self.workers = [
            self._start(
                *("worker", self.address, "--host", "127.0.0.1", "--nthreads", "1"),
                *("--no-nanny", "--no-dashboard", "--local-directory", str(directory)),
            )
            for _ in range(2)
        ]

    def _address(self, file: Path) -> str:
        while self.processes[0].poll() is None:
            # The file is empty at first.
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                address: str = json.loads(file.read_text())["address"]
                return address
            time.sleep(0.01)
        raise AssertionError((self.directory / "0.log").read_text())

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.directory / f"{len(self.processes)}.log").open("wb")
        command = [sys.executable, "-m", "dask", *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All tests of this file share a cluster. After the first test it has one worker."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.address, timeout="60s") as client:
        client.wait_for_workers(1, timeout=60)
        yield client


def table(**options: Any) -> Any:
    return pyarrow.table(lab.run(sensor(), seeds=SEEDS, progress=False, **options))


def test_a_killed_worker_changes_nothing(
    cluster: Cluster, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.wait_for_workers(2, timeout=60)
    one_job = table(jobs=1)
    assert table(jobs=4).equals(one_job)
    reports: list[int] = []

    @contextlib.contextmanager
    def killing_bar(*_: object) -> Iterator[Callable[[int], None]]:
        def show(done: int) -> None:
            # When the first results have come, one of the two workers is lost with what it runs and holds.
            if done > 0 and cluster.workers[0].poll() is None:
                cluster.workers[0].kill()
                cluster.workers[0].wait()
            reports.append(done)

        yield show

    with monkeypatch.context() as patch:
        patch.setattr(_run, "_bar", killing_bar)
        on_cluster = table(client=client, results=tmp_path / "kept")
    assert cluster.workers[0].poll() is not None
    assert on_cluster.equals(one_job)
    assert reports == sorted(reports) and reports[-1] == 4 * SEEDS and len(reports) > 2, "results stream in"
    # A local run finds all runs in the directory that the cluster filled, and makes none.
    (kept,) = (tmp_path / "kept").glob("*.csv")
    assert kept.read_text() == lab.run(sensor(), seeds=SEEDS, progress=False).to_csv()


def test_a_known_run_is_not_made_again(client: Client, tmp_path: Path) -> None:
    lab.run(sensor(), seeds=2, results=tmp_path, progress=False)
    results = lab.run(sensor(), seeds=3, results=tmp_path, client=client, progress=False)
    assert pyarrow.table(results).equals(pyarrow.table(lab.run(sensor(), seeds=3, progress=False)))


def test_a_worker_with_another_build_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "build", lambda: "0.0.0+other")
    with pytest.raises(lab.ExperimentError, match="install the same wheel everywhere"):
        lab.run(sensor(), client=client, progress=False)


@pytest.mark.usefixtures("client")
def test_the_command_line_uses_the_cluster(cluster: Cluster, command: str, tmp_path: Path) -> None:
    file = tmp_path / "sensor.toml"
    file.write_text(_native.toml_from_json(json.dumps(FIELDS)))
    arguments = [command, "lab", "run", str(file), "--quick", "--seeds", "2", "--only", "loss=5%", "--dask", cluster.address]
    arguments += ["--csv", str(tmp_path / "out.csv")]
    environment = {**os.environ, "ANABRANCH_PYTHON": sys.executable}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    expected = lab.run(FIELDS, quick=True, seeds=2, only={"loss": "5%"}, progress=False)
    assert done.stdout.splitlines()[1:] == [f"  {line}" for line in expected.summary()]
    assert (tmp_path / "out.csv").read_text() == expected.to_csv()


def test_the_command_line_says_what_is_missing(command: str) -> None:
    arguments = [command, "lab", "run", "time-sensitive", "--quick", "--dask", "tcp://127.0.0.1:9"]
    # A Python without the package.
    environment = {**os.environ, "ANABRANCH_PYTHON": "/nonexistent/python"}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode != 0 and "pip install 'anabranch[dask]'" in done.stderr, done.stderr


def test_an_address_without_a_scheduler_is_an_error() -> None:
    arguments = ["-m", "anabranch.lab", "run", "time-sensitive", "--dask", "tcp://127.0.0.1:9", "--timeout", "1"]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "no scheduler answers" in done.stderr, done.stderr
