"""The grid of `scripts/rivals`: its links, its traffic, and the words for both."""
import collections

# Anabranch's settings that are compared with the rivals.
OURS = "anabranch-best"

Traffic = collections.namedtuple("Traffic", "deadline words")
TRAFFIC = {
    "game": Traffic(100, "60 messages/s of 100 bytes, deadline 100 ms"),
    "telephony": Traffic(150, "50 messages/s of 160 bytes, deadline 150 ms"),
    "video": Traffic(200, "30 frames/s of 4 to 12 KiB, one of 40 KiB every 2 s (2.1 Mbit/s), deadline 200 ms"),
    "control": Traffic(500, "10 messages/s of 64 bytes, deadline 500 ms, reliable and in order"),
}

# Paths as texts for `anabranch bed`, the round-trip time of the first path in ms, and words for tables.
Link = collections.namedtuple("Link", "paths rtt words")
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
