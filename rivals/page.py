"""The tables, verdicts and pictures of `scripts/rivals`, on the terminal and as a page of the book."""
import csv, math, os, statistics, subprocess, sys, tempfile

import kept, pictures
from grid import HARD, LINKS, OURS, REFERENCES, SHARED, SIMULATED, TABLES, TRAFFIC

# Student's t for a two-sided interval of 95 %, by the number of runs.
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
# A flow is fair if a TCP flow beside it keeps this share of its goodput beside another TCP flow.
FAIR = 0.5
SIMULATOR = """The experiment `rivals` of the laboratory ([LAB.md](LAB.md#rivals)) simulates the same cells for Anabranch alone. If the two intervals do not
overlap, the last column has the difference, testbed minus simulator, in percentage points. The settings and messages are those of the testbed; the
random losses are different."""
BESIDE = {"alone": "alone", "file": "beside a file", "tcp": "beside a TCP flow"}
TITLE_HARD = "two paths, none of which is enough"


class Sample:
    """The values of a number in the runs of a cell."""

    def __init__(self, values):
        self.values = values
        self.mean = statistics.mean(values)
        spread = statistics.stdev(values) if len(values) > 1 else math.nan
        self.half = STUDENT.get(len(values), 1.96) * spread / math.sqrt(len(values)) if len(values) > 1 else math.nan

    def overlaps(self, other):
        """Whether the intervals overlap. A single run has no interval."""
        halves = sum(0 if math.isnan(sample.half) else sample.half for sample in (self, other))
        return abs(self.mean - other.mean) <= halves

    def told(self, digits=1):
        return f"{self.mean:.{digits}f}" + ("" if math.isnan(self.half) else f" ± {self.half:.{digits}f}")


class Results:
    """All records, by traffic, link, beside and rival."""

    def __init__(self, records):
        self.records = records
        self.of = {tuple(record["cell"][axis] for axis in ("traffic", "link", "beside", "rival")): record for record in records}
        # Anabranch comes last in the tables; otherwise sorting keeps the order.
        self.rivals = sorted(dict.fromkeys(record["cell"]["rival"] for record in records), key=lambda name: self.stack(name) == "anabranch")

    def stack(self, rival):
        return next(record["stack"] for record in self.records if record["cell"]["rival"] == rival)

    def samples(self, traffic, link, beside):
        """The shares in time of all rivals, as (rival, path): the path is A or B if the rival was measured on this path of two alone."""
        keys = {(rival, None): (traffic, link, beside, rival) for rival in self.rivals}
        if link in HARD:
            keys |= {(rival, path.upper()): (traffic, f"{link}-{path}", beside, rival) for path in HARD[link].alone for rival in self.rivals}
        return {name: sample for name, key in keys.items() if (sample := self.sample(key, "in_time"))}

    def sample(self, key, name):
        runs = self.of[key]["runs"] if key in self.of else []
        values = [run[name] for run in runs if run.get(name) is not None]
        return Sample(values) if values else None

    def kept_by_tcp(self, traffic, link, rival):
        """The share of its goodput beside another TCP flow that the TCP flow keeps; `None` if that was not measured."""
        there, reference = (self.sample(key, "tcp_mbit") for key in ((traffic, link, "tcp", rival), ("none", link, "tcp", "tcp-cubic")))
        return there.mean / reference.mean if there and reference and reference.mean else None

    def fair(self, traffic, beside, rival):
        """Whether the rival leaves TCP its share on all links on which that was measured: with these messages, and with its file if a file is
        part of the cell. `None` if it was not measured. References are not."""
        if self.stack(rival) in REFERENCES:
            return False
        shares = [self.kept_by_tcp(traffic, link, rival) for link in SHARED]
        if beside == "file":
            shares += [self.kept_by_tcp("none", link, rival) for link in SHARED]
        shares = [share for share in shares if share is not None]
        return min(shares) >= FAIR if shares else None

    def fair_samples(self, traffic, link, beside, ours):
        """The shares in time of `ours` and of all rivals that leave TCP its share."""
        return {name: sample for name, sample in self.samples(traffic, link, beside).items()
                if (name in ours or self.stack(name[0]) != "anabranch") and self.fair(traffic, beside, name[0]) is not False}

    def first(self, traffic, link, beside):
        """The first of a cell. Only those that leave TCP its share count."""
        ours = [(name, None) for name in OURS]
        fair = self.fair_samples(traffic, link, beside, ours)
        if not any(name not in ours for name in fair):
            return ""
        best = max(fair, key=lambda name: fair[name].mean)
        level = [told(name) for name in fair if fair[name].overlaps(fair[best])]
        return told(best) if len(level) == 1 else "level: " + ", ".join(level) if len(level) < 4 else f"{len(level)} are level"

    def verdict(self, traffic, link, beside, ours):
        """How a setting of Anabranch compares with the first rival, and that rival with its lead in percentage points if its mean is higher.
        Only rivals that leave TCP its share count."""
        ours = (ours, None)
        sample = self.samples(traffic, link, beside).get(ours)
        others = self.fair_samples(traffic, link, beside, [])
        if not sample or not others:
            return "", None
        if self.fair(traffic, beside, ours[0]) is False:
            return "unfair", None
        rival = max(others, key=lambda name: others[name].mean)
        behind = others[rival].mean - sample.mean
        lead = (told(rival), behind) if behind > 0 else None
        if sample.overlaps(others[rival]):
            return "level", lead
        return f"{behind:.1f} behind {told(rival)}" if lead else "first", lead


def told(name):
    """The words for a rival, and for the path that it has alone."""
    rival, path = name
    return f"{rival}, path {path}" if path else rival


def verdict_rows(results, traffic, links, beside):
    """The rows at the end of a table with shares: the first of each cell, and Anabranch's settings."""
    rows = [["**first**", *(results.first(traffic, link, beside) for link in links)]]
    rows += [[f"**{ours}**", *(results.verdict(traffic, link, beside, ours)[0] for link in links)] for ours in OURS
             if any((traffic, link, beside, ours) in results.of for link in links)]
    return rows


def share_tables(results):
    """A table for each kind of traffic and group of links: the share of messages in time."""
    for traffic in TRAFFIC:
        for beside, groups in (("alone", [name for name in TABLES if name != "shared"]), ("file", ["shared"]), ("tcp", ["shared"])):
            for group in groups:
                columns = [link for link in TABLES[group] if any((traffic, link, beside, rival) in results.of for rival in results.rivals)]
                rows = []
                for rival in results.rivals:
                    samples = [results.sample((traffic, link, beside, rival), "in_time") for link in columns]
                    if any(samples):
                        unfair = results.fair(traffic, beside, rival) is False
                        rows.append([rival + (", unfair" if unfair else ""), *(sample.told() if sample else "" for sample in samples)])
                if rows:
                    rows += verdict_rows(results, traffic, columns, beside)
                    for ours in OURS:
                        bytes_sent = [results.sample((traffic, link, beside, ours), "wire") for link in columns]
                        if any(bytes_sent):
                            rows.append([f"{ours}: bytes for each useful byte", *(sample.told(2) if sample else "" for sample in bytes_sent)])
                    title = f"{traffic} {BESIDE[beside]}" + ("" if group == "shared" else f": {group}")
                    yield title, ["in time in %", *(TABLES[group][link] for link in columns)], rows


def before(results, samples, ours):
    """The references with a higher mean than a setting of Anabranch, and by how many percentage points."""
    if (ours, None) not in samples:
        return ""
    ahead = {name: sample.mean - samples[ours, None].mean for name, sample in samples.items() if results.stack(name[0]) in REFERENCES}
    return ", ".join(f"{told(name)} by {points:.1f}" for name, points in ahead.items() if points > 0)


def hard_tables(results):
    """A table for each kind of traffic on two paths, none of which is enough: the share in time, and the bytes on the wire."""
    for traffic in TRAFFIC:
        columns = [link for link in HARD if results.samples(traffic, link, "alone")]
        samples = {link: results.samples(traffic, link, "alone") for link in columns}
        names = [(rival, path) for path in (None, "A", "B") for rival in results.rivals]
        rows = []
        for rival, path in names:
            if not any((rival, path) in samples[link] for link in columns):
                continue
            row = [told((rival, path)) + (", unfair" if results.fair(traffic, "alone", rival) is False else "")]
            for link in columns:
                share = samples[link].get((rival, path))
                wire = results.sample((traffic, f"{link}-{path.lower()}" if path else link, "alone", rival), "wire")
                row.append("; ".join([share.told()] + ([wire.told(2)] if wire else [])) if share else "")
            rows.append(row)
        if rows:
            rows += verdict_rows(results, traffic, columns, "alone")
            rows += [[f"references before {ours}", *(before(results, samples[link], ours) for link in columns)] for ours in OURS]
            yield f"{traffic}: {TITLE_HARD}", ["in time in %; bytes for each useful byte", *(f"`{link}`" for link in columns)], rows


def cost_tables(results):
    """At the base link: delays, bytes on the wire and processor time."""
    for traffic in TRAFFIC:
        rows = []
        for rival in results.rivals:
            key = (traffic, "base", "alone", rival)
            samples = [(results.sample(key, name), digits) for name, digits in
                       (("in_time", 1), ("median_ms", 1), ("p99_ms", 0), ("wire", 2), ("cpu_us", 0))]
            if samples[0][0]:
                rows.append([rival, *(sample.told(digits) if sample else "" for sample, digits in samples)])
        if rows:
            yield (f"{traffic} alone at the base link", ["rival", "in time, %", "median, ms", "99th percentile, ms", "bytes on the wire for each "
                   "useful byte", "processor time for each message, µs"], rows)


def fair_tables(results):
    """The goodput of the TCP flow beside each rival."""
    for traffic in (*TRAFFIC, "none"):
        rows = []
        for rival in results.rivals:
            told = []
            for link in SHARED:
                sample, share = results.sample((traffic, link, "tcp", rival), "tcp_mbit"), results.kept_by_tcp(traffic, link, rival)
                told.append("" if not sample else sample.told(2) + ("" if share is None else f" ({share:.0%})"))
            if any(told):
                rows.append([rival, *told])
        if rows:
            what = "the rival's file" if traffic == "none" else traffic
            yield f"TCP beside {what}", ["TCP, Mbit/s", *(TABLES["shared"][link] for link in SHARED)], rows


def summary(results):
    """In how many cells each of Anabranch's settings is first or level."""
    rows = []
    groups = [(words, beside, [link for link in LINKS if not LINKS[link].hard]) for beside, words in BESIDE.items()]
    for ours in OURS:
        for title, beside, links in [*groups, (TITLE_HARD, "alone", list(HARD))]:
            cells = {(traffic, link): results.verdict(traffic, link, beside, ours) for traffic in TRAFFIC for link in links}
            cells = {place: verdict for place, verdict in cells.items() if verdict[0]}
            words = [word for word, _ in cells.values()]
            lower = [f"{traffic}, {LINKS[link].words}: {lead[0]} by {lead[1]:.1f}" for (traffic, link), (_, lead) in cells.items() if lead]
            if cells:
                first, level = words.count("first"), words.count("level")
                counts = [len(cells), first, level, len(cells) - first - level, len(cells) - len(lower)]
                rows.append([f"`{ours}`", title, *counts, "; ".join(lower)])
    heads = ["setting", "cells", "number", "first", "level", "behind", "cells where no rival has a higher mean",
             "rivals with a higher mean, and their lead in percentage points"]
    return heads, rows


def simulate(program):
    """Our cells in the simulator: a sample for each traffic, link, beside and setting, of the experiment `rivals`."""
    senders = {sender: ours for ours, sender in SIMULATED.items()}
    only = [word for sender in senders for word in ("--only", f"sender={sender}")]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rivals.csv")
        subprocess.run([program, "lab", "run", "rivals", *only, "--csv", file], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        values = {}
        with open(file, newline="", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                key = (row["traffic"], row["link"], row["beside"], senders[row["sender"]])
                values.setdefault(key, []).append(float(row["in_time_percent"]))
    return {key: Sample(shares) for key, shares in values.items()}


def simulated_table(results, simulated):
    """Our cells on the testbed and in the simulator, and whether they agree within the intervals."""
    rows = []
    for key, there in simulated.items():
        traffic, link, beside, ours = key
        here = results.sample(key, "in_time")
        if here:
            apart = "" if here.overlaps(there) else f"{here.mean - there.mean:+.1f}"
            rows.append([f"`{ours}`", f"{traffic} {BESIDE[beside]}", LINKS[link].words, here.told(), there.told(), apart])
    return ["setting", "messages", "link", "testbed, %", "simulator, %", "outside the intervals"], rows


def state(records, cells=None):
    """How the results were made, line by line, warnings first. `cells`: the number of cells of the whole grid."""
    if cells and len(records) < cells:
        yield f"PROVISIONAL: {len(records)} of the {cells} cells of the grid are measured; a cell is compared only with what is measured there"
    commits = list(dict.fromkeys(record["commit"] for record in records))
    if any(commit.endswith("+") for commit in commits):
        yield "PROVISIONAL: measured with changes that were not committed"
    if any(record["cell"]["seconds"] < 15 or record["cell"]["runs"] < 3 for record in records):
        yield "PROVISIONAL: runs shorter than 15 s, or fewer than three for each cell"
    busy = [record["others"] or 0 for record in records]
    if max(busy) > kept.QUIET:
        yield (f"PROVISIONAL: during {sum(share > kept.QUIET for share in busy)} of {len(busy)} cells other programs used more than "
               f"{kept.QUIET:.0%} of the processors")
    runs = [run for record in records for run in record["runs"]]
    late = sum(not run.get("held", True) for run in runs)
    if late:
        yield f"PROVISIONAL: in {late} of {len(runs)} runs the testbed was late, even in the second attempt"
    failed = [f"{record['cell']['rival']}, {record['cell']['traffic']} at {record['cell']['link']}" for record in records
              for run in record["runs"] if "failed" in run]
    if failed:
        yield f"PROVISIONAL: {len(failed)} runs failed: {'; '.join(dict.fromkeys(failed))}"
    stolen = [run["stolen"] for run in runs if run.get("stolen") is not None]
    yield (f"{len(records)} cells, {min(r['when'] for r in records)[:10]} to {max(r['when'] for r in records)[:10]}, commits "
           f"{', '.join(commits)}; {', '.join(dict.fromkeys(record['machine'] for record in records))}. Other programs used "
           f"{statistics.mean(busy):.1%} of the processors (mean over the cells; at most {max(busy):.1%}). The host of a virtual machine took "
           f"{statistics.mean(stolen) if stolen else 0:.1%} of them (steal time).")


def show(records, simulated=None):
    results = Results(records)
    print("\n".join(state(records)))
    for tables in (share_tables, hard_tables, cost_tables, fair_tables):
        for title, heads, rows in tables(results):
            print(f"\n{title}", end="")
            kept.table(heads, [[str(value).replace("**", "") for value in row] for row in rows])
    print("\nAnabranch compared with the best rival that leaves TCP its share", end="")
    kept.table(*summary(results))
    if simulated:
        print("\nAnabranch on the testbed and in the simulator", end="")
        kept.table(*simulated_table(results, simulated))


def markdown(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(value) for value in line) + " |" for line in lines)


def settings_table(records):
    newest = {record["cell"]["rival"]: record for record in records}
    # The list order of the program, which is the order of the cells.
    return markdown(["rival", "version", "settings"], [[f"`{name}`", record["version"], record["settings"]] for name, record in newest.items()])


def write(folder, records, simulated=None, cells=None):
    """Writes the page from its template, `page.md`, and the pictures to a folder."""
    template = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.md"), encoding="utf-8").read()
    if not records:
        parts = {"state": "Nothing is measured yet: no results are kept.", "summary": "", "pictures": "", "tables": "", "settings": ""}
    else:
        results = Results(records)

        def section(title, tables):
            written = [f"\n### {heading[0].upper()}{heading[1:]}\n\n{markdown(heads, rows)}\n" for heading, heads, rows in tables(results)]
            return f"\n## {title}\n" + "".join(written) if written else ""

        drawn = pictures.draw(results, folder)
        parts = {
            "state": "\n\n".join(state(records, cells)),
            "summary": markdown(*summary(results)),
            "pictures": "\n\n".join(f"![{words}]({name})\n\n*{words}*" for name, words in drawn),
            "tables": section("Messages in time", share_tables) + section(TITLE_HARD[0].upper() + TITLE_HARD[1:], hard_tables) +
                      section("Delays and costs", cost_tables) +
                      section("The TCP flow beside", fair_tables) +
                      (f"\n## The simulator\n\n{SIMULATOR}\n\n{markdown(*simulated_table(results, simulated))}\n" if simulated else ""),
            "settings": settings_table(records),
        }
    for name, part in parts.items():
        template = template.replace("{{" + name + "}}", part.strip())
    while "\n\n\n" in template:
        template = template.replace("\n\n\n", "\n\n")
    file = os.path.join(folder, "IN-TIME.md")
    with open(file, "w", encoding="utf-8") as out:
        out.write(template.rstrip() + "\n")
    print(f"{file} is written", file=sys.stderr)
