"""The pictures of the book's page, drawn as SVG: the share of messages in time by loss, at the base link, and the TCP flow beside."""
import html, math, os

from grid import OURS, SHARED, TABLES, TRAFFIC

FONT = 'font-family="sans-serif"'
GREY, DARK = "#cccccc", "#333333"
# The settings in the pictures with lines, one or two for each stack, with their colours. Anabranch's are red, and thick if they are compared.
LINES = {"tcp-cubic": "#7f7f7f", "tcp-bbr": "#222222", "quinn-reset": "#1f77b4", "kcp-fast": "#9467bd", "enet-reliable": "#8c6d31",
         "srt": "#2ca02c", "rist": "#bcbd22", "usrsctp-lifetime": "#17becf", "anabranch": "#f4a08a", **dict(zip(OURS, ("#d62728", "#8c1515")))}


def text(x, y, words, size=12, anchor="start", colour=DARK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" {FONT} {more}>{html.escape(str(words))}</text>'


def line(x1, y1, x2, y2, colour=GREY, width=1.0, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}" {more}/>'


def dot(x, y, colour, radius=3.5, hollow=False):
    fill = "white" if hollow else colour
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'


def save(folder, name, width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}">'
            f'<rect width="100%" height="100%" fill="white"/>')
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        out.write(head + "\n" + "\n".join(parts) + "\n</svg>\n")


def by_loss(results, folder):
    """A panel for each kind of traffic: the share in time over the random loss."""
    links = list(TABLES["random loss"])
    drawn = {traffic: {rival: [(at, sample) for at, link in enumerate(links)
                               if (sample := results.sample((traffic, link, "alone", rival), "in_time"))]
                       for rival in LINES} for traffic in TRAFFIC}
    drawn = {traffic: lines for traffic, lines in drawn.items() if any(lines.values())}
    if max((len(points) for lines in drawn.values() for points in lines.values()), default=0) < 2:
        return None
    wide, high, left, top = 300, 200, 50, 80
    parts = []
    for place, (rival, colour) in enumerate(name for name in LINES.items() if any(lines[name[0]] for lines in drawn.values())):
        x, y = left + place % 5 * 140, 18 + place // 5 * 20
        parts += [line(x, y - 4, x + 18, y - 4, colour, 4 if rival in OURS else 2), text(x + 23, y, rival)]
    for panel, (traffic, lines) in enumerate(drawn.items()):
        x0, y0 = left + panel % 2 * (wide + 70), top + panel // 2 * (high + 70)
        parts.append(text(x0, y0 - 10, f"{traffic}, deadline {TRAFFIC[traffic].deadline} ms", 13, more='font-weight="bold"'))

        def at(place, share, x0=x0, y0=y0):
            return x0 + 10 + place * (wide - 20) / (len(links) - 1), y0 + high - share * high / 100

        for share in (0, 25, 50, 75, 100):
            y = at(0, share)[1]
            parts += [line(x0, y, x0 + wide, y), text(x0 - 6, y + 4, f"{share} %", 11, "end")]
        for place, link in enumerate(links):
            parts.append(text(at(place, 0)[0], y0 + high + 16, TABLES["random loss"][link].split(" (")[0], 11, "middle"))
        parts.append(text(x0 + wide / 2, y0 + high + 32, "random loss in both directions", 11, "middle"))
        for rival, points in lines.items():
            places = [at(place, sample.mean) for place, sample in points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{LINES[rival]}" stroke-width="{3 if rival in OURS else 1.5}"/>')
            parts += [dot(x, y, LINES[rival], 4 if rival in OURS else 2.5) for x, y in places]
    height = top + (len(drawn) + 1) // 2 * (high + 70) - 20
    save(folder, "in-time-loss.svg", left + 2 * wide + 90, height, parts)
    return "in-time-loss.svg", ("Share of messages in time by the random loss, alone on a link of 10 Mbit/s with a round-trip time of 80 ms and a "
                                "queue of one bandwidth-delay product")


def rows_of_dots(columns, row_names, values, most, unit, name, folder):
    """A row for each rival and a panel for each column: a dot with its interval. `values` returns the sample of a rival and a column, and
    whether its dot is hollow; `columns` has a title, and a marked value or `None`, for each column."""
    left, wide, top, step, gap = 170, 120, 46, 18, 40
    height = top + step * len(row_names) + 40
    parts = []
    for column, (title, mark) in enumerate(columns):
        x0 = left + column * (wide + gap)
        parts.append(text(x0, 22, title, 12, more='font-weight="bold"'))

        def at(value, x0=x0):
            return x0 + min(max(value, 0), most) * wide / most

        bottom = top + step * len(row_names)
        for share in (0, 0.5, 1):
            parts += [line(at(share * most), top - 8, at(share * most), bottom),
                      text(at(share * most), bottom + 16, f"{share * most:g}", 10, "middle")]
        parts.append(text(x0 + wide / 2, bottom + 30, unit, 10, "middle"))
        if mark is not None:
            parts.append(line(at(mark), top - 8, at(mark), bottom, "#d62728", 1.2, 'stroke-dasharray="4 3"'))
        for row, rival in enumerate(row_names):
            sample, hollow = values(rival, column)
            y = top + row * step + 5
            if sample:
                colour = "#d62728" if rival in OURS else "#1f77b4"
                half = 0 if sample.half != sample.half else sample.half
                parts += [line(at(sample.mean - half), y, at(sample.mean + half), y, colour, 1.5), dot(at(sample.mean), y, colour, hollow=hollow)]
    for row, rival in enumerate(row_names):
        parts.append(text(left - 12, top + row * step + 9, rival, 12, "end", "#d62728" if rival in OURS else DARK))
    save(folder, name, left + len(columns) * (wide + gap) + 10, height, parts)


def base(results, folder):
    columns = [(traffic, beside) for traffic in ("game", "video") for beside in ("alone", "file", "tcp")]
    columns = [column for column in columns if any((column[0], "base", column[1], rival) in results.of for rival in results.rivals)]
    names = [rival for rival in results.rivals if any((traffic, "base", beside, rival) in results.of for traffic, beside in columns)]
    if not names:
        return None
    words = {"alone": "alone", "file": "with a file", "tcp": "with TCP"}

    def values(rival, column):
        traffic, beside = columns[column]
        return results.sample((traffic, "base", beside, rival), "in_time"), results.fair(traffic, beside, rival) is False

    rows_of_dots([(f"{traffic} {words[beside]}", None) for traffic, beside in columns], names, values, 100, "%", "in-time-base.svg", folder)
    return "in-time-base.svg", ("Share of messages in time at the base link (10 Mbit/s, 80 ms, 1 % loss): mean and 95 % interval. A hollow dot: the "
                                "rival leaves a TCP flow less than half of what it has beside another TCP flow")


def fair(results, folder):
    columns = [(traffic, link) for traffic in ("video", "none") for link in SHARED
               if any((traffic, link, "tcp", rival) in results.of for rival in results.rivals)]
    names = [rival for rival in results.rivals if any((traffic, link, "tcp", rival) in results.of for traffic, link in columns)]
    if not names:
        return None
    words = {"base": "1 % loss", "loss-5": "5 % loss", "queue-1s": "queue 1 s"}
    heads = []
    for traffic, link in columns:
        reference = results.sample(("none", link, "tcp", "tcp-cubic"), "tcp_mbit")
        heads.append((f"{'video' if traffic == 'video' else 'file'}, {words[link]}", reference and reference.mean / 2))

    def values(rival, column):
        traffic, link = columns[column]
        share = results.kept_by_tcp(traffic, link, rival)
        return results.sample((traffic, link, "tcp", rival), "tcp_mbit"), share is not None and share < 0.5

    samples = [values(rival, column)[0] for rival in names for column in range(len(columns))]
    most = math.ceil(max(sample.mean for sample in samples if sample) * 1.2)
    rows_of_dots(heads, names, values, most, "Mbit/s", "in-time-fair.svg", folder)
    return "in-time-fair.svg", ("Goodput of a TCP flow beside each rival, which sends video or a file. The dashed line is half of the goodput beside "
                                "another TCP flow: left of it, the rival is unfair")


def draw(results, folder):
    """Draws all pictures for which there are results; returns their names and words."""
    return [drawn for drawn in (picture(results, folder) for picture in (by_loss, base, fair)) if drawn]
