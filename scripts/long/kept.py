"""The shared code of the scripts in this folder: cells are measured once for each commit, and kept as lines of JSON."""
import datetime, json, math, os, signal, subprocess, sys, time

root = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# A machine is quiet if other programs use less than this share of its processors.
QUIET = 0.1


def used_by_others():
    """Processor time in seconds that all programs except this one's children used since the machine started, with the host of a virtual machine."""
    if not os.path.exists("/proc/stat"):
        return math.nan
    times = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = times
    own = os.times()
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK") - own.children_user - own.children_system


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def commit(code=("crates", "Cargo.toml", "Cargo.lock")):
    """The last commit that changed code, so that a commit of documents or results needs no new measurements. `+` at the end means
    uncommitted changes: such cells are always measured again."""
    changed = git("status", "--porcelain", "--", *code)
    return git("log", "-1", "--format=%h", "--", *code) + ("+" if changed else "")


def options(parser, name):
    """Adds the options that every script has, and parses all options."""
    parser.add_argument("--quick", action="store_true", help="measure one small cell, to check that everything works")
    parser.add_argument("--show", action="store_true", help="measure nothing; print the tables of the kept results")
    parser.add_argument("--results", metavar="FILE",
                        help=f"the file of kept results, a line for each cell (default: results/{name}.jsonl, with --quick {name}-quick.jsonl)")
    parser.add_argument("--commit", metavar="COMMIT", help="keep results under this name (default: the last commit that changed code, "
                        "with + at the end if there are uncommitted changes); with --show: print this one (default: the one kept last)")
    args = parser.parse_args()
    file = f"{name}-quick.jsonl" if args.quick else f"{name}.jsonl"
    args.results = args.results or os.path.join(root, "results", file)
    return args


def call(command, **more):
    """Runs a command; returns its status and its output. At Ctrl-C the command and its children are interrupted once, and the call waits for
    them: in their own session they do not get the terminal's Ctrl-C."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **more)
    try:
        said, _ = child.communicate()
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGINT)
        child.communicate()
        raise
    return child.returncode, said


def me(*words):
    """The command that runs one part of this script, for example on a host of the testbed: see `run_part`."""
    return [sys.executable, os.path.abspath(sys.argv[0]), *map(str, words)]


def run_part(*parts):
    """Runs the part that `me` named, and ends the program. Returns if it named none."""
    part = next((part for part in parts if sys.argv[1:2] == [part.__name__]), None)
    if part:
        part(*sys.argv[2:])
        sys.exit()


def program():
    """The program to measure: ANABRANCH, or the build of this tree with the profile `dist`."""
    if "ANABRANCH" in os.environ:
        return os.environ["ANABRANCH"]
    subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "--quiet", "--bin", "anabranch"], cwd=root, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")), "dist", "anabranch")


def key_pairs(anabranch, folder):
    """Makes the files server.key, server.key.pub, client.key and client.key.pub."""
    for name in ("server", "client"):
        subprocess.run([anabranch, "keygen", f"{folder}/{name}.key"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tls(anabranch, folder):
    """The options with which the server and the client of `perf` encrypt, with a key pair for each."""
    key_pairs(anabranch, folder)
    return (["--tls", "--key", f"{folder}/server.key", "--allow", f"{folder}/client.key.pub"],
            ["--tls", "--key", f"{folder}/client.key", "--peer", f"{folder}/server.key.pub"])


def load(file):
    """All records of a file. A last line that is incomplete after an interruption is ignored."""
    records = []
    if os.path.exists(file):
        for line in open(file):
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                print(f"{file}: an incomplete line is ignored", file=sys.stderr)
    return records


def keep(file, record):
    with open(file, "a+") as out:
        if out.tell():
            # Ends a line that was left incomplete.
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


def measure(args, cells, seconds, run, commit_of=None):
    """Measures the cells that the file does not have for this commit. `run` measures a cell and returns the further fields of its record; a
    cell takes about `seconds` seconds. `commit_of` names the commit of a cell, if not all cells depend on the same code. Ends the program at
    Ctrl-C."""
    file, now = args.results, args.commit or commit()
    if args.commit or not commit_of:
        def commit_of(_cell):
            return now
    known = {(record["commit"], json.dumps(record["cell"], sort_keys=True)) for record in load(file) if not record["commit"].endswith("+")}
    left = [cell for cell in cells if (commit_of(cell), json.dumps(cell, sort_keys=True)) not in known]
    until = datetime.datetime.now() + datetime.timedelta(seconds=seconds * len(left))
    print(f"commit {now}: {len(cells) - len(left)} of {len(cells)} cells are kept; the other cells take about "
          f"{span(seconds * len(left))}, until {until:%H:%M}", flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    try:
        for number, cell in enumerate(left, 1):
            others, began = used_by_others(), time.time()
            record = {"commit": commit_of(cell), "cell": cell, "when": datetime.datetime.now().isoformat(timespec="seconds"), **run(cell)}
            record["took"] = round(time.time() - began, 1)
            used = (used_by_others() - others) / (time.time() - began) / os.cpu_count()
            record["others"] = None if math.isnan(used) else round(used, 3)
            keep(file, record)
            words = ", ".join(f"{name} {value}" for name, value in cell.items() if name != "flags")
            rest = (time.time() - began) * (len(left) - number)
            print(f"{number}/{len(left)} {words}: {record.get('says', '')} ({span(record['took'])}; {span(rest)} left)", flush=True)
    except KeyboardInterrupt:
        print("\nstopped; the finished cells are kept, and the same command continues", file=sys.stderr)
        sys.exit(130)


def shown(args, real_time=True):
    """The newest record of each cell for a commit, by default the commit of the last record. Prints which records these are."""
    records = load(args.results)
    if not records:
        sys.exit(f"no results are kept in {args.results}")
    wanted = args.commit or records[-1]["commit"]
    newest = {json.dumps(record["cell"], sort_keys=True): record for record in records if record["commit"] == wanted}
    chosen = list(newest.values())
    if not chosen:
        sys.exit(f"no results are kept of commit {wanted}; there are: {', '.join(dict.fromkeys(r['commit'] for r in records))}")
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
