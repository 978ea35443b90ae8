"""The picture of a run: one SVG over a common time axis, without libraries.

    draw(events, states, path, title, violations)      events as in tests/judge/history.py; states: lines {"t", "node",
                                                       "role", "term"}; violations: (t, rule, text)
    draw_folder(folder, violations)                    of a run's folder, into its timeline.svg

From the top: rule violations and the calm moment (lines through everything), a lane for each node, the faults, answers per
second, latencies, outcomes that nobody knows, connections that ended. It draws whatever it is given: a history that the
judge refuses is looked at as well, and one that breaks off is drawn up to there.
"""

import collections
import glob
import json
import math
import os
from typing import NamedTuple

NS = 1_000_000_000
WIDTH, LEFT, RIGHT = 1400, 172, 24
PLOT = WIDTH - LEFT - RIGHT
CHARACTER = 6.1  # width of one, about
ROW = 15  # of faults and marks
MARK_ROWS = 6  # more names of violations are only in tooltips
FAULT_ROWS = 24  # with names beside short bars; if that takes more, names stand only where there is room
BINS = 250
TITLE = 160  # characters that fit
STEPS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600, 86400)

ROLES = {"leader": "#2166ac", "follower": "#b5d3ec", "candidate": "#7fbf9b", "standby": "#c9b3e6", "waiting": "#e6dc8c",
         "silent": "#e3b08f", "down": "#4a4a4a"}  # fmt: skip
OTHER_ROLE = "#d0d0d0"
FAULT, MILD, NO_MAJORITY = "#ef8a3c", "#fbe0c6", "#7b3f98"
ANSWERS = {"A": ("A granted", "#2166ac"), "R": ("R released", "#7fb2d9"), "K": ("K renewed", "#5aa87a"),
           "T": ("T timeout", "#e6b84c"), "N": ("N not held", "#b08fc9"), "B": ("B busy", "#c46a4a"),
           "E": ("E error", "#8a1c1c")}  # fmt: skip
RED, GREEN, GREY = "#c8102e", "#1a8a3a", "#e4e4e4"
STYLE = """text { font: 11px "DejaVu Sans", Verdana, sans-serif; fill: #222 } .big { font-size: 15px }
.red { fill: %s } .green { fill: %s } .mid { text-anchor: middle } .end { text-anchor: end }
.red, .green { paint-order: stroke; stroke: #fff; stroke-width: 3px }""" % (RED, GREEN)


def escape(text):
    """For XML, which has no way to write most control characters."""
    text = "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def nice(least):
    """The least of 1, 2, 5, 10, 20, ... that is not below it."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * 0.999)


def quantile(ordered, share):
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# ---- What happened.


class Fault(NamedTuple):
    begin: int
    end: int
    what: str
    tip: str
    colour: str


class Facts:
    """What the picture shows of the events."""

    def __init__(self, events):
        self.answers = []  # (t, op)
        self.latencies = []  # (t of the send, ns), where nothing had to be waited for
        self.unknown, self.closed = [], []  # times
        self.faults, self.calm = [], None
        self.end = max((event["t"] for event in events), default=0)
        self._open = collections.defaultdict(dict)  # conn -> {(answer to A or not, owner or token, key): sends}
        begun = {}
        for event in events:
            kind = event["e"]
            if kind == "send" and event["op"] in "ARK":
                self._open[event["conn"]].setdefault(self._name(event), collections.deque()).append(event)
            elif kind == "recv":
                self._answered(event)
            elif kind == "close":
                self._closed(event)
            elif kind == "fault":
                begun[event["id"]] = event
            elif kind == "healed" and event["id"] in begun:
                self._add_fault(begun.pop(event["id"]), event["t"])
            elif kind == "calm":
                self.calm = event["t"]
        for event in begun.values():
            self._add_fault(event, self.end)
        self.faults.sort()

    @staticmethod
    def _name(event):
        is_acquire = event["op"] in "ATB"
        return is_acquire, event.get("owner" if is_acquire else "token"), event.get("key")

    def _answered(self, event):
        op = event["op"]
        if op not in ANSWERS:
            return
        self.answers.append((event["t"], op))
        waiting = self._open[event["conn"]].get(self._name(event))
        if waiting:
            sent = waiting.popleft()
            if not sent.get("wait"):
                self.latencies.append((sent["t"], event["t"] - sent["t"]))

    def _closed(self, event):
        """What is open then is unknown for ever; driver.py says so once more, lq_users does not."""
        for waiting in self._open.pop(event["conn"], {}).values():
            self.unknown += [event["t"]] * len(waiting)
        if event["why"] != "own":
            self.closed.append(event["t"])

    def _add_fault(self, event, end):
        places = ",".join(str(node) for node in event["nodes"] if node != 0)  # 0: clients that go where they like
        what = event["what"] if event["what"] == "no majority" or not places else "%s: %s" % (event["what"], places)
        colour = MILD if event.get("mild") else NO_MAJORITY if event["what"] == "no majority" else FAULT
        tip = "%s, %.2f s%s" % (what, (end - event["t"]) / NS, "\n%s" % event["detail"] if event.get("detail") else "")
        self.faults.append(Fault(event["t"], end, what, tip, colour))


def stretches(states, end):
    """{node: [(from, to, role, term)]}"""
    lanes = {}
    for state in sorted(states, key=lambda state: state["t"]):
        lane = lanes.setdefault(state["node"], [])
        if lane:
            lane[-1][1] = state["t"]
        lane.append([state["t"], end, state["role"], state.get("term")])
    return lanes


def pack(spans):
    """The row of each (from, to): the first one that is free. They are in the order of their begins."""
    ends, rows = [], []
    for begin, end in spans:
        row = next((row for row, taken in enumerate(ends) if taken <= begin), len(ends))
        ends[row:row + 1] = [end]
        rows.append(row)
    return rows


# ---- The picture.


class Picture:
    def __init__(self, begin, end):
        self.begin, self.end = begin, max(end, begin + NS // 10)
        self.y = 0
        self.under, self.parts = [], []
        seconds = (self.end - self.begin) / NS
        self.bin_s = next((step for step in STEPS if seconds / step <= BINS), seconds / BINS)
        self.bin_ns = round(self.bin_s * NS)
        self.bins = -((self.begin - self.end) // self.bin_ns)

    def x(self, t):
        return LEFT + PLOT * (min(max(t, self.begin), self.end) - self.begin) / (self.end - self.begin)

    def bin_x(self, at):
        return self.x(self.begin + at * self.bin_ns)

    def bin_of(self, t):
        return min(max(0, (t - self.begin) // self.bin_ns), self.bins - 1)

    def add(self, text, *values):
        self.parts.append(text % values if values else text)

    def text(self, x, y, text, kind=""):
        self.add('<text x="%.1f" y="%.1f"%s>%s</text>', x, y, ' class="%s"' % kind if kind else "", escape(text))

    def box(self, kind, x, y, width, height, colour, tip=None):
        inside = "<title>%s</title>" % escape(tip) if tip is not None else ""
        self.add('<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s">%s</rect>',
                 kind, x, y, max(width, 0.8), height, colour, inside)  # fmt: skip

    def legend(self, x, y, entries, is_row=False):
        """Squares with words: down the margin, or along a row."""
        for word, colour in entries:
            self.box("key", x, y - 8, 9, 9, colour)
            self.text(x + 13, y, word)
            x, y = (x + 22 + CHARACTER * len(word) + 8, y) if is_row else (x, y + 13)

    def panel(self, title, height, ticks, place, entries=()):
        """A frame with a scale. place(value): its share of the height. Returns y(value)."""
        top = self.y + 8
        self.y = top + height + 6

        def y_of(value):
            return top + height * (1 - place(value))

        self.text(8, top + 9, title)
        self.legend(12, top + 24, entries)
        for value, word in ticks:
            self.add('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>', LEFT, WIDTH - RIGHT, y_of(value), y_of(value), GREY)
            self.text(LEFT - 5, y_of(value) + 4, word, "end")
        self.add('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#888"/>', LEFT, WIDTH - RIGHT, top + height, top + height)
        return y_of

    def linear(self, title, height, greatest, entries=()):
        step = max(1, nice(max(greatest, 1) / (4 if height > 60 else 1.2)))
        top = step * max(1, math.ceil(greatest / step))
        ticks = [(step * n, "%g" % (step * n)) for n in range(int(top / step) + 1)]
        return self.panel(title, height, ticks, lambda value: value / top, entries)

    def write(self, path, title):
        with open(path, "w", encoding="utf-8") as file:
            file.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">\n' % ((WIDTH, self.y) * 2))
            file.write("<title>%s</title>\n<style>%s</style>\n" % (escape(title), STYLE))
            file.write('<rect width="100%" height="100%" fill="#fff"/>\n')
            file.write("\n".join(self.under + self.parts) + "\n</svg>\n")


# ---- Its parts.


def draw_head(picture, title, note):
    picture.text(8, 20, title if len(title) <= TITLE else title[: TITLE - 3] + "...", "big")
    picture.text(8, 38, note)
    picture.legend(LEFT, 58, [*ROLES.items(), ("other", OTHER_ROLE)], is_row=True)
    picture.legend(LEFT + 700, 58, (("fault", FAULT), ("mild", MILD), ("no majority", NO_MAJORITY)), is_row=True)
    picture.text(8, 58, "legend")
    picture.y = 68


def draw_lanes(picture, states):
    for node, lane in sorted(stretches(states, picture.end).items(), key=lambda item: str(item[0])):
        picture.text(8, picture.y + 21, "node %s" % node)
        free = 0
        for begin, end, role, term in lane:
            if end <= picture.begin or begin >= picture.end:
                continue
            x = picture.x(begin)
            tip = "node %s: %s%s, from %.2f s, for %.2f s" % (
                node, role, "" if term is None else " in term %s" % term, (begin - picture.begin) / NS, (end - begin) / NS)  # fmt: skip
            picture.box("state %s" % escape(role), x, picture.y + 11, picture.x(end) - x, 13, ROLES.get(role, OTHER_ROLE), tip)
            if role == "leader" and x >= free:
                word = "%s" % term if free else "term %s" % term
                picture.text(x, picture.y + 9, word, "term")
                free = x + CHARACTER * len(word) + 4
        picture.y += 27


def draw_faults(picture, faults):
    if not faults:
        draw_bars(picture, "no faults", [])
        return
    missing = [fault._replace(what="") for fault in faults if fault.colour == NO_MAJORITY]
    if missing:
        draw_bars(picture, "no majority", missing)
    draw_bars(picture, "faults", [fault for fault in faults if fault.colour != NO_MAJORITY])


def draw_bars(picture, title, faults):
    """Each with its name in it, or behind it where there is room."""
    spans = [(picture.x(fault.begin), max(picture.x(fault.end), picture.x(fault.begin) + 2)) for fault in faults]
    widths = [CHARACTER * len(fault.what) + 8 if fault.what else 0 for fault in faults]
    named = [(begin, end if end - begin >= width else end + width) for (begin, end), width in zip(spans, widths)]
    rows = pack(named)
    if max(rows, default=0) >= FAULT_ROWS:
        rows = pack(spans)
    free = dict.fromkeys(rows, WIDTH)  # where the next one of the row begins
    picture.y += 6
    picture.text(8, picture.y + 11, title)
    for fault, (begin, end), (_, named_end), row in reversed(list(zip(faults, spans, named, rows))):
        y = picture.y + ROW * row
        picture.box("fault", begin, y, end - begin, ROW - 2, fault.colour, fault.tip)
        if fault.what and named_end <= free[row]:
            picture.text((begin if named_end == end else end) + 3, y + 10, fault.what)
        free[row] = begin
    picture.y += ROW * (max(rows, default=0) + 1) + 2


def draw_answers(picture, answers):
    """Answers per second, stacked."""
    counts = collections.Counter((picture.bin_of(t), op) for t, op in answers)
    totals = collections.Counter(picture.bin_of(t) for t, _ in answers)
    used = {op: entry for op, entry in ANSWERS.items() if any(name == op for _, name in counts)}
    greatest = max(totals.values(), default=0) / picture.bin_s
    y_of = picture.linear("answers per second", 118, greatest, used.values())
    below = [0.0] * picture.bins
    for op, (_, colour) in used.items():
        edge, base = [], []
        for at in range(picture.bins):
            base.append((at, below[at]))
            below[at] += counts[at, op] / picture.bin_s
            edge.append((at, below[at]))
        outline = [(at + side, value) for at, value in edge for side in (0, 1)]
        outline += [(at + side, value) for at, value in reversed(base) for side in (1, 0)]
        points = " ".join("%.1f,%.1f" % (picture.bin_x(at), y_of(value)) for at, value in outline)
        picture.add('<polygon class="answers %s" points="%s" fill="%s"/>', op, points, colour)


def draw_latencies(picture, latencies):
    """Quantiles, placed where the requests were sent."""
    bins = collections.defaultdict(list)
    for sent, taken in latencies:
        bins[picture.bin_of(sent)].append(max(taken, 1000) / NS)
    for values in bins.values():
        values.sort()
    lines = (("p50", "#2166ac", 0.5), ("p99", "#b5531c", 0.99))
    found = [quantile(values, share) for values in bins.values() for _, _, share in lines] or [0.001]
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    high = max(high, low + 1)
    ticks = [(10.0**power, "%g s" % 10**power if power >= 0 else "%g ms" % 10.0 ** (power + 3)) for power in range(low, high + 1)]
    entries = [(word, colour) for word, colour, _ in lines]
    y_of = picture.panel("latency (no waits)", 118, ticks, lambda value: (math.log10(value) - low) / (high - low), entries)
    for word, colour, share in lines:
        path, last = [], None
        for at in sorted(bins):
            point = "%.1f,%.1f" % (picture.bin_x(at + 0.5), y_of(quantile(bins[at], share)))
            path.append(("L" if last == at - 1 else "M") + point + ("" if last == at - 1 else "h0.1"))
            last = at
        picture.add('<path class="%s" d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-linecap="round"/>',
                    word, " ".join(path), colour)  # fmt: skip


def draw_counts(picture, title, times, colour, kind):
    counts = collections.Counter(picture.bin_of(t) for t in times)
    y_of = picture.linear(title, 40, max(counts.values(), default=0))
    for at, count in sorted(counts.items()):
        x = picture.bin_x(at)
        tip = "%d within %g s" % (count, picture.bin_s)
        picture.box(kind, x, y_of(count), picture.bin_x(at + 1) - x, y_of(0) - y_of(count), colour, tip)


class Mark(NamedTuple):
    x: float
    word: str
    tip: str
    is_red: bool

    def span(self):
        """Of its word, which stands to the left of the line near the right edge."""
        width = CHARACTER * len(self.word) + 8
        begin = self.x if self.x + width < WIDTH else self.x - width
        return begin, begin + width


def collect_marks(picture, violations, calm):
    """In their order. Violations of one rule at one place are one mark."""
    places = collections.defaultdict(list)
    for t, rule, text in sorted(violations):
        places[round(picture.x(t)), rule].append("%s: %s (%.3f s)" % (rule, text, (t - picture.begin) / NS))
    marks = []
    for (x, rule), texts in places.items():
        rest = ["... and %d more" % (len(texts) - 5)] if len(texts) > 5 else []
        marks.append(Mark(x, rule, "\n".join(texts[:5] + rest), True))
    if calm is not None:
        marks.append(Mark(picture.x(calm), "calm", "all is well from %.2f s on" % ((calm - picture.begin) / NS), False))
    return sorted(marks, key=Mark.span)


def draw_marks(picture, marks, rows, top):
    for mark, row in zip(marks, rows):
        kind, colour, dashes = ("violation", RED, "") if mark.is_red else ("calm", GREEN, ' stroke-dasharray="5 3"')
        where = 'x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"' % (mark.x, mark.x, top + ROW * min(row, MARK_ROWS), picture.y)
        picture.add('<g class="%s"><title>%s</title>', kind, escape(mark.tip))
        picture.add('<line %s stroke="#000" stroke-opacity="0" stroke-width="7"/>', where)  # easier to point at
        picture.add('<line %s stroke="%s" stroke-width="1.4"%s/>', where, colour, dashes)
        if row < MARK_ROWS:
            picture.text(mark.span()[0] + 3, top + ROW * row + 11, mark.word, "red" if mark.is_red else "green")
        picture.add("</g>")


def draw_axis(picture, top):
    seconds = (picture.end - picture.begin) / NS
    step = nice(seconds / 14)
    for n in range(int(seconds / step + 1e-6) + 1):
        x = picture.x(picture.begin + n * step * NS)
        picture.under.append('<line x1="%.1f" x2="%.1f" y1="%d" y2="%.1f" stroke="%s"/>' % (x, x, top, picture.y, GREY))
        picture.text(x, picture.y + 13, "%g s" % (n * step), "mid")
    picture.y += 22


def draw(events, states, path, title, violations=()):
    facts = Facts(events)
    times = [event["t"] for event in events] or [state["t"] for state in states] or [t for t, _, _ in violations] or [0]
    picture = Picture(min(times), max(times))
    note = "%d answers, %d unknown outcomes, %d connections ended, %d faults, %s in %.1f s; a bin is %g s" % (
        len(facts.answers), len(facts.unknown), len(facts.closed), len(facts.faults),
        "%d violations" % len(violations), (max(times) - min(times)) / NS, picture.bin_s)  # fmt: skip
    draw_head(picture, title, note if events else "nothing was recorded")
    top = picture.y
    marks = collect_marks(picture, violations, facts.calm)
    rows = pack([mark.span() for mark in marks])
    picture.y += ROW * min(MARK_ROWS, max(rows, default=-1) + 1)
    grid = picture.y
    draw_lanes(picture, states)
    draw_faults(picture, facts.faults)
    draw_answers(picture, facts.answers)
    draw_latencies(picture, facts.latencies)
    draw_counts(picture, "unknown outcomes", facts.unknown, "#a0527a", "unknown")
    draw_counts(picture, "connections ended", facts.closed, "#6b6b6b", "closed")
    draw_marks(picture, marks, rows, top)
    draw_axis(picture, grid)
    picture.write(path, title)


# ---- Folders of runs.


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_lines(path, *names):
    """The objects with these names in a file of JSON lines. Its writer may have been killed, so the last line may be torn."""
    found = []
    for line in read(path).split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and all(name in entry for name in names):
            found.append(entry)
    return found


def draw_folder(folder, violations=()):
    paths = glob.glob(os.path.join(glob.escape(folder), "history-*.jsonl"))
    events = [event for path in sorted(paths) for event in read_lines(path, "t", "e")]
    events.sort(key=lambda event: event["t"])
    states = read_lines(os.path.join(folder, "states.jsonl"), "t", "node", "role")
    title = "run %s: %s" % (os.path.basename(os.path.abspath(folder)), read(os.path.join(folder, "command.txt")).strip())
    draw(events, states, os.path.join(folder, "timeline.svg"), title, violations)
