"""The laboratory: experiments, tables, pictures, kept results and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from anabranch import lab

#: A small experiment: four cells, whose runs take milliseconds.
FIELDS: dict[str, Any] = {
    "name": "sensor",
    "question": "How much arrives in time?",
    "seeds": 3,
    "seconds": 5,
    "paths": [{"there": "rate=2mbit,delay=40ms,queue=50p"}],
    "traffic": [{"name": "sensor", "bytes": 200, "every": "20ms", "lifetime": "200ms", "deadline": "300ms"}],
    "variants": [{"name": "plain"}, {"name": "expiring", "expiry": True}],
    "sweep": {"link": "loss", "values": ["0%", "5%"]},
}


def sensor() -> lab.Experiment:
    return lab.Experiment(**FIELDS)


def test_experiments_are_listed() -> None:
    listed = {experiment.name: experiment for experiment in lab.experiments()}
    about = listed["time-sensitive"]
    assert about.source and about.question and about.metrics and about.figures and about.cells > 1
    assert "0.1" in about.axes["loss"]
    assert {setting.name for setting in about.settings} >= {"rtt", "distance"}


def test_results_are_a_table() -> None:
    results = lab.run(sensor(), progress=False)
    table = pyarrow.table(results)
    assert table.num_rows == len(results) == 12
    assert table.column_names[:6] == ["experiment", "version", "extent", "settings", "seed", "variant"]
    assert table.schema.field("seed").type == pyarrow.uint64()
    assert table.column("seed").to_pylist()[:3] == [1, 2, 3]
    frame = pandas.DataFrame.from_arrow(results)
    assert frame.equals(table.to_pandas())
    assert polars.DataFrame(results).equals(polars.DataFrame(table))
    lines = results.to_csv().splitlines()
    assert lines[0].split(",") == table.column_names and len(lines) == 13
    assert frame.groupby("variant")["sensor_in_time"].mean().between(0, 1).all()
    assert len(results.summary()) >= 4 and "12 runs" in repr(results)


def test_all_forms_of_an_experiment_are_equal(tmp_path: Path) -> None:
    file = tmp_path / "sensor.toml"
    file.write_text(
        """
        name = "sensor"
        question = "How much arrives in time?"
        seeds = 3
        seconds = 5
        [[paths]]
        there = "rate=2mbit,delay=40ms,queue=50p"
        [[traffic]]
        name = "sensor"
        bytes = 200
        every = "20ms"
        lifetime = "200ms"
        deadline = "300ms"
        [[variants]]
        name = "plain"
        [[variants]]
        name = "expiring"
        expiry = true
        [sweep]
        link = "loss"
        values = ["0%", "5%"]
        """
    )

    class Own:
        def __init__(self) -> None:
            self.__dict__.update(FIELDS)

    expected = pyarrow.table(lab.run(file, progress=False))
    for form in (str(file), FIELDS, sensor(), Own()):
        assert pyarrow.table(lab.run(form, progress=False)).equals(expected)  # type: ignore[arg-type]


def test_jobs_change_nothing() -> None:
    tables = [pyarrow.table(lab.run(sensor(), jobs=jobs, progress=False)) for jobs in (1, 4)]
    assert tables[0].equals(tables[1])


def test_choices_of_cells_and_settings() -> None:
    settings = {"rtt": 100.0}
    only: dict[str, list[float | str]] = {"loss": [0.05, "0.1"]}
    results = lab.run("time-sensitive", quick=True, seeds=2, only=only, settings=settings, progress=False)
    table = pyarrow.table(results)
    assert set(table.column("settings").to_pylist()) == {"rtt=100"}
    assert set(table.column("loss").to_pylist()) <= {0.05, 0.1}
    assert set(table.column("seed").to_pylist()) == {1, 2}


def test_pictures_and_claims() -> None:
    results = lab.run("stream-priority", quick=True, seeds=2, progress=False)
    verdicts = {claim.verdict for claim in results.claims}
    assert verdicts and all(claim.claim and claim.details for claim in results.claims)
    own = lab.run(sensor(), progress=False)
    plot = own.plot("sensor_in_time")
    assert plot.svg.count("<svg") == 1 and plot._repr_svg_().startswith("<svg")
    assert plot.name in own.figures and len(own.plots()) == len(own.figures)
    assert own.plot() == own.plots()[0]
    with pytest.raises(lab.ExperimentError, match="has no figure 'x'; it has: "):
        own.plot("x")


def test_a_plot_is_saved(tmp_path: Path) -> None:
    plot = lab.run(sensor(), progress=False).plot()
    plot.save(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text() == plot.svg


def test_kept_runs_are_not_made_again(tmp_path: Path) -> None:
    first = lab.run(sensor(), seeds=2, results=tmp_path, progress=False)
    kept = (tmp_path / "sensor.csv").read_text()
    assert kept == first.to_csv() and (tmp_path / "sensor.json").exists()
    # A changed number shows that a run was read and not made.
    column = kept.splitlines()[0].split(",").index("sensor_in_time")
    lines = kept.splitlines()
    fields = lines[1].split(",")
    fields[column] = "0.125"
    lines[1] = ",".join(fields)
    (tmp_path / "sensor.csv").write_text("\n".join(lines) + "\n")
    second = pyarrow.table(lab.run(sensor(), results=tmp_path, progress=False))
    assert second.num_rows == 12 and second.column("sensor_in_time")[0].as_py() == 0.125
    (tmp_path / "sensor.csv").write_text("something else\n")
    with pytest.raises(lab.ExperimentError, match="move the file away"):
        lab.run(sensor(), results=tmp_path, progress=False)


def test_errors_say_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(lab.ExperimentError, match='there is no experiment "time-sensitiv"; did you mean'):
        lab.run("time-sensitiv")
    with pytest.raises(lab.ExperimentError, match="cannot read the file"):
        lab.run(tmp_path / "none.toml")
    with pytest.raises(lab.ExperimentError, match="has no setting"):
        lab.run("time-sensitive", settings={"rttt": 5})
    with pytest.raises(lab.ExperimentError, match="has no axis"):
        lab.run("time-sensitive", only={"los": 0.1})
    with pytest.raises(lab.ExperimentError, match="seeds cannot be 0"):
        lab.run("time-sensitive", seeds=0)
    with pytest.raises(lab.ExperimentError, match="choose one"):
        lab.run("time-sensitive", quick=True, short=True)
    with pytest.raises(lab.ExperimentError, match="variants"):
        lab.run({"name": "x", "paths": [{"there": "delay=1ms"}], "traffic": [{"name": "a", "bytes": 1, "every": "1s"}]})
    with pytest.raises(lab.ExperimentError, match="texts, numbers, lists"):
        lab.run({"name": "x", "paths": [object]})


def test_other_threads_run_meanwhile() -> None:
    """The runs do not hold the lock of the interpreter: this thread counts while another thread waits for them."""
    thread = threading.Thread(target=lambda: lab.run(sensor(), jobs=1, seeds=200, progress=False))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
        time.sleep(0)
    thread.join()
    assert turns > 10


def test_without_the_package_of_the_bars_there_is_none(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert len(lab.run(sensor(), progress=True)) > 0
    assert capfd.readouterr().err == ""


def test_a_progress_bar_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    lab.run(sensor(), progress=True)
    assert "12/12" in capfd.readouterr().err
    lab.run(sensor())
    assert capfd.readouterr().err == "", "not a terminal"


BLOCKED = """
import sys
from anabranch import lab
print("ready", flush=True)
lab.run("time-sensitive", seeds=10_000, results=sys.argv[1], progress=False)
"""


def test_ctrl_c_ends_a_sweep(tmp_path: Path) -> None:
    program = [sys.executable, "-c", BLOCKED, str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors
    assert (tmp_path / "time-sensitive.csv").exists(), "the runs so far are kept"
