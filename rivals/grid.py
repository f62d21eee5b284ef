"""The grid of `scripts/rivals`: its links, its traffic, and the words for both."""
import collections

# Anabranch's settings that are compared with the rivals: the deadline of each message alone, and settings chosen for the traffic.
OURS = ("anabranch-deadline", "anabranch-best")
# Their names in the laboratory's experiment `rivals`.
SIMULATED = {"anabranch-deadline": "deadline", "anabranch-best": "best"}
# Stacks that are no rivals but references: they have no congestion control and no pacing, and are never first.
REFERENCES = ("dup",)

Traffic = collections.namedtuple("Traffic", "deadline words")
TRAFFIC = {
    "game": Traffic(100, "60 messages/s of 100 bytes, deadline 100 ms"),
    "telephony": Traffic(150, "50 messages/s of 160 bytes, deadline 150 ms"),
    "video": Traffic(200, "30 frames/s of 4 to 12 KiB, one of 40 KiB every 2 s (2.1 Mbit/s), deadline 200 ms"),
    "control": Traffic(500, "10 messages/s of 64 bytes, deadline 500 ms, reliable and in order"),
}

# Paths as texts for `anabranch bed`, the round-trip time of the first path in ms, words for tables, and the name in `HARD` of a link with both
# or one of its paths.
Link = collections.namedtuple("Link", "paths rtt words hard", defaults=[None])
# The mean length of a burst in packets.
BURST = 4


def one(words, rate=10, rtt=80, loss=1, burst=False, queue_ms=None, outages=None):
    """A link with a rate in Mbit/s, a loss in percent, and a queue of `queue_ms`, or of one bandwidth-delay product."""
    if outages:
        lost = "outage:" + "/".join(f"{begin}ms-{begin + 500}ms" for begin in outages)
    elif burst:
        # Gilbert-Elliott: all packets of a burst are lost.
        ends = 1 / BURST
        lost = f"burst:{ends * loss / (100 - loss):.6f}/{ends}"
    else:
        lost = f"{loss}%"
    queue = rate * (queue_ms or rtt) / 8
    return Link([f"rate={rate}mbit,delay={rtt / 2:g}ms,queue={queue:g}kb,loss={lost}"], rtt, words)


LINKS = {
    "base": one("base"),
    "loss-0": one("0 %", loss=0),
    "loss-3": one("3 %", loss=3),
    "loss-5": one("5 %", loss=5),
    "loss-10": one("10 %", loss=10),
    "queue-1s": one("queue of 1 s", queue_ms=1000),
    "burst-1": one("1 %", loss=1, burst=True),
    "burst-3": one("3 %", loss=3, burst=True),
    "burst-5": one("5 %", loss=5, burst=True),
    "burst-10": one("10 %", loss=10, burst=True),
    "rate-2": one("2 Mbit/s", rate=2),
    "rate-50": one("50 Mbit/s", rate=50),
    "rtt-20": one("RTT 20 ms", rtt=20),
    "rtt-200": one("RTT 200 ms", rtt=200),
    # Outages of 0.5 s, no other loss; their times count from the start of the testbed.
    "mobile": one("outages", outages=[4000, 7300, 11900, 15200]),
    "two-paths": Link(["rate=10mbit,delay=40ms,queue=100kb,loss=1%", "rate=4mbit,delay=60ms,queue=60kb,loss=2%"], 80, "two paths"),
}


def path(rate, rtt, loss="none", queue_ms=None, **more):
    """A path with a rate in Mbit/s and a round-trip time in ms, whose queue is one bandwidth-delay product, or `queue_ms`."""
    settings = [f"rate={rate}mbit", f"delay={rtt / 2:g}ms", f"queue={rate * (queue_ms or rtt) / 8:g}kb", f"loss={loss}"]
    return ",".join([*settings, *(f"{name}={value}" for name, value in more.items())])


def outages(*begins):
    return "outage:" + "/".join(f"{begin}ms-{begin + 500}ms" for begin in begins)


# Links with two paths, none of which is enough; set-up uses the first path. A path has one kind of loss: the random losses beside outages are
# damage, which checksums detect. The names are those of the laboratory's experiment `rivals`. `alone` are the paths that are measured alone as
# well, A or B, because they are the better path for some traffic.
Hard = collections.namedtuple("Hard", "first second rtts words traffic alone")
BURSTS = f"burst:{5 / 95 / BURST:.6f}/{1 / BURST}"
HARD = {
    "weak": Hard(path(1.5, 60, "1%"), path(1.2, 90, "2%"), (60, 90), "weak", ("video", "game", "control"), "a"),
    "outages": Hard(path(5, 60, outages(4000, 7300, 11900, 15200), corrupt="1%"), path(5, 80, outages(5600, 9600, 13500, 17000), corrupt="1%"),
                    (60, 80), "outages on both", ("game", "telephony", "video", "control"), "a"),
    "bursts": Hard(path(10, 80, BURSTS), path(10, 100, BURSTS), (80, 100), "bursts on both", ("game", "telephony", "video"), "a"),
    "unequal": Hard(path(10, 40, "20%"), path(2, 200), (40, 200), "unequal", ("game", "telephony", "video", "control"), "ab"),
    "filled": Hard(path(10, 40, queue_ms=1000), path(3, 60), (40, 60), "filled", ("game", "video"), "b"),
}
for name, hard in HARD.items():
    LINKS[name] = Link([hard.first, hard.second], hard.rtts[0], hard.words, name)
    for letter, one_path, rtt in zip("ab", (hard.first, hard.second), hard.rtts):
        if letter in hard.alone:
            LINKS[f"{name}-{letter}"] = Link([one_path], rtt, f"{hard.words}, path {letter.upper()} alone", name)
# On this link a TCP flow fills the queue of the first path, from so many seconds before the first message on.
FILLED, LEAD = "filled", 10
# Rivals with one path, and Anabranch, are measured on the better path.
ON_ONE_PATH = ("quinn-streams", "srt", *OURS)
# The links with a file or a TCP flow beside the messages.
SHARED = ("base", "loss-5", "queue-1s")

# The tables: a name, and the links of their columns.
TABLES = {
    "random loss": {"loss-0": "0 %", "base": "1 % (base)", "loss-3": "3 %", "loss-5": "5 %", "loss-10": "10 %"},
    "loss in bursts": {name: LINKS[name].words for name in ("burst-1", "burst-3", "burst-5", "burst-10", "mobile")},
    "rate, round-trip time and queue": {name: LINKS[name].words for name in ("rate-2", "rate-50", "rtt-20", "rtt-200", "queue-1s")},
    "shared": {"base": "1 % (base)", "loss-5": "5 %", "queue-1s": "queue of 1 s"},
    "two paths": {"two-paths": "two paths"},
}
