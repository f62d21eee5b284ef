"""The shared code of `shares` and `rivals`: measures cells of the laboratory's experiments on real packets."""
import json, os, statistics, sys

import kept


def run(anabranch, experiment, places, seeds, seconds):
    """Measures a cell of an experiment in the simulator and on the bed. Returns the fields of a record: for each half the values of each
    metric, seed by seed."""
    if os.geteuid():
        sys.exit("the bed needs root to make network namespaces (docs/BED.md)")
    only = [word for axis, place in places.items() for word in ("--only", f"{axis}={place}")]
    status, said = kept.call([anabranch, "lab", "run", experiment, "--bed", *only, "--seeds", str(seeds), "--jobs", "1",
                              "--set", f"seconds={seconds}", "--json"], stderr=None)
    if status:
        sys.exit(f"`lab run {experiment} --bed` ended with status {status}")
    facts = json.loads(said.splitlines()[-1])
    halves = {cell["at"]["half"]: {name: metric["values"] for name, metric in cell["metrics"].items()} for cell in facts["cells"]}
    return {"version": facts["version"], "simulated": halves["simulated"], "bed": halves["bed"]}


def mean(record, half, metric):
    return statistics.mean(record[half][metric])


def told(record, metric, digits=2):
    """A metric's mean, minimum and maximum on the bed, and its mean in the simulator."""
    values = record["bed"][metric]
    return (f"{mean(record, 'bed', metric):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})",
            f"{mean(record, 'simulated', metric):.{digits}f}")


def late(records):
    """Warns if the bed was late, because the numbers are then unreliable."""
    runs = [held for record in records for held in record["bed"]["not_held"]]
    if any(runs):
        print(f"PROVISIONAL: in {int(sum(runs))} of {len(runs)} runs the bed was late")
