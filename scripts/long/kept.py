"""What the scripts of this folder share: cells that are measured once for each commit, and kept as lines of JSON."""
import datetime, json, math, os, signal, subprocess, sys, time

root = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# A machine is quiet if other programs use less than this of its processors.
QUIET = 0.1


def used_by_others():
    """Processor time in seconds that all programs but this one's children used since the machine began, its own host included."""
    if not os.path.exists("/proc/stat"):
        return math.nan
    times = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = times
    own = os.times()
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK") - own.children_user - own.children_system


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def commit():
    """The last commit that changed code, so that committing documents or results measures nothing anew; `+` behind it if there are
    changes that are not committed: such cells are always measured again."""
    code = ["crates", "Cargo.toml", "Cargo.lock"]
    changed = git("status", "--porcelain", "--", *code)
    return git("log", "-1", "--format=%h", "--", *code) + ("+" if changed else "")


def options(parser, name):
    """Adds the options of every script, and reads all."""
    parser.add_argument("--quick", action="store_true", help="measure one small cell, to see that everything works")
    parser.add_argument("--show", action="store_true", help="measure nothing; print the tables of what is kept")
    parser.add_argument("--results", metavar="FILE",
                        help=f"where cells are kept, a line each (default: results/{name}.jsonl, with --quick {name}-quick.jsonl)")
    parser.add_argument("--commit", metavar="COMMIT", help="keep cells under this name (default: the last commit that changed code, "
                        "with + behind it for changes that are not committed); with --show: of this one (default: the one kept last)")
    args = parser.parse_args()
    file = f"{name}-quick.jsonl" if args.quick else f"{name}.jsonl"
    args.results = args.results or os.path.join(root, "results", file)
    return args


def call(command, **more):
    """Runs a command; answers its status and what it said. At Ctrl-C it is interrupted once, with what it started, and waited for: it does
    not see the terminal's."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **more)
    try:
        said, _ = child.communicate()
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGINT)
        child.communicate()
        raise
    return child.returncode, said


def program():
    """The command: ANABRANCH, or else what this tree's release build makes."""
    if "ANABRANCH" in os.environ:
        return os.environ["ANABRANCH"]
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--bin", "anabranch"], cwd=root, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")), "release", "anabranch")


def load(file):
    """All records of a file; a last line that an interruption cut off is none."""
    records = []
    if os.path.exists(file):
        for line in open(file):
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                print(f"{file}: a line is cut off, and does not count", file=sys.stderr)
    return records


def keep(file, record):
    with open(file, "a+") as out:
        if out.tell():
            # A line that was cut off ends here.
            out.seek(out.tell() - 1)
            if out.read() != "\n":
                out.write("\n")
        out.write(json.dumps(record) + "\n")


def span(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def measure(args, cells, seconds, run):
    """Measures the cells that the file has not for this commit, each with `run`, which answers a record's further fields. A cell
    takes about so many seconds. Ends the program at Ctrl-C."""
    file, now = args.results, args.commit or commit()
    known = [record["cell"] for record in load(file) if record["commit"] == now and not now.endswith("+")]
    left = [cell for cell in cells if cell not in known]
    until = datetime.datetime.now() + datetime.timedelta(seconds=seconds * len(left))
    print(f"commit {now}: {len(cells) - len(left)} of {len(cells)} cells are kept; the others take about "
          f"{span(seconds * len(left))}, until {until:%H:%M}", flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    try:
        for number, cell in enumerate(left, 1):
            others, began = used_by_others(), time.time()
            record = {"commit": now, "cell": cell, "when": datetime.datetime.now().isoformat(timespec="seconds"), **run(cell)}
            record["took"] = round(time.time() - began, 1)
            used = (used_by_others() - others) / (time.time() - began) / os.cpu_count()
            record["others"] = None if math.isnan(used) else round(used, 3)
            keep(file, record)
            words = ", ".join(f"{name} {value}" for name, value in cell.items() if name != "flags")
            rest = (time.time() - began) * (len(left) - number)
            print(f"{number}/{len(left)} {words}: {record.get('says', '')} ({span(record['took'])}; {span(rest)} left)", flush=True)
    except KeyboardInterrupt:
        print("\nstopped; what is measured is kept, and the same command goes on from there", file=sys.stderr)
        sys.exit(130)


def shown(args, real_time=True):
    """The records of a commit, by default that of the last record; the newest of each cell. Says which they are."""
    records = load(args.results)
    if not records:
        sys.exit(f"nothing is kept in {args.results}")
    wanted = args.commit or records[-1]["commit"]
    newest = {json.dumps(record["cell"], sort_keys=True): record for record in records if record["commit"] == wanted}
    chosen = list(newest.values())
    if not chosen:
        sys.exit(f"nothing is kept of commit {wanted}; there is: {', '.join(dict.fromkeys(r['commit'] for r in records))}")
    busy = real_time and sum((record["others"] or 0) > QUIET for record in chosen)
    print(f"commit {wanted}, {len(chosen)} cells, {chosen[0]['when'][:10]} to {chosen[-1]['when'][:10]}")
    if wanted.endswith("+"):
        print("PROVISIONAL: measured with changes that were not committed")
    if busy:
        print(f"PROVISIONAL: during {busy} cells other programs used more than {QUIET:.0%} of the processors")
    return chosen


def table(heads, rows):
    print("\n| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row) + " |")
