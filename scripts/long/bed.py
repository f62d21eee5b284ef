"""What `shares` and `rivals` share: cells of the laboratory's experiments on real packets."""
import json, os, statistics, sys

import kept


def run(anabranch, experiment, places, seeds, seconds):
    """Measures a cell of an experiment in the simulator and on the bed; answers a record's fields: for each half the values of each
    metric, seed by seed."""
    if os.geteuid():
        sys.exit("the bed's network namespaces need root (docs/BED.md)")
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
    """A metric's mean on the bed, its extremes, and the mean in the simulator."""
    values = record["bed"][metric]
    return (f"{mean(record, 'bed', metric):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})",
            f"{mean(record, 'simulated', metric):.{digits}f}")


def late(records):
    """Says if the bed was late: then the numbers are those of a busy machine."""
    runs = [held for record in records for held in record["bed"]["not_held"]]
    if any(runs):
        print(f"PROVISIONAL: in {int(sum(runs))} of {len(runs)} runs the bed was late")
