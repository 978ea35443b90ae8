"""What the rules of the judge share: the limits of the service, holds of a key, and when a fault excuses lateness.

All intervals lean to the side of the service: what may have been is wide, what must have been is narrow. A grant took
effect somewhere between the send of its acquire and the arrival of A, a release between its send and its R. So whatever
a rule still finds is wrong in every possible reading of the history, as far as that rule looks.
"""

import bisect
import collections
from typing import NamedTuple

from history import NS

FOREVER = 1 << 62


class Limits(NamedTuple):
    early: float = 0.99  # a lease never ends before this share of it
    certain: float = 0.98  # a client is certain of its lease up to this share of it, counted from its send
    slow: float = 1.01  # clocks of the service may be slower than ours
    late_ms: int = 1500  # a lease ends, a wait is over and a grant is told at the latest so long after it should
    answer_s: float = 10.0  # whatever need not wait is answered within, or its connection ends
    grace_ms: int = 1500  # a fault excuses for so long after it is healed
    exact: bool = True  # a release after the lease gets N (cluster mode); else R is right, too, until a sweep
    busy: bool = True  # B is possible: there are caps, or times without a leader


class Violation(NamedTuple):
    rule: str
    text: str
    events: list


class Hold:
    """A grant that was told, and what was done with its token."""

    def __init__(self, acquire):
        self.acquire = acquire
        self.token = acquire.token
        self.renewals, self.releases, self.refused = [], [], []  # outcome K or None, R or None, N
        self.low = acquire.sent  # the grant was not before, as far as is derived
        self.earliest_end = self.earliest_lease_end = FOREVER  # the latter if no release that was confirmed ended it
        self.due_end = self.latest_end = FOREVER  # without, and with what may make it late

    def add(self, touch):
        if touch.outcome == "N":
            self.refused.append(touch)
        elif touch.op == "K":
            self.renewals.append(touch)
        else:
            self.releases.append(touch)

    @property
    def released(self):
        """The release that was confirmed, if any."""
        return next((r for r in self.releases if r.outcome == "R"), None)

    def derive_earliest_end(self, case):
        """When the hold ended at the earliest. A lease is counted from the last renewal that is certain, or from
        renewals that may have been last, whichever is least; and the last one was not before any that is certain."""
        early = case.limits.early
        confirmed = [k for k in self.renewals if k.outcome == "K"]
        newest = max((k.sent for k in confirmed), default=0)
        alive = max(self.low, newest)
        ends = [max(k.sent, alive) + int(early * k.lease) for k in self.renewals if case.done_by(k) >= newest]
        if not confirmed:
            ends.append(self.low + int(early * self.acquire.lease))
        ends += [r.sent for r in self.releases if case.done_by(r) >= newest]
        # One that was told too late is renewed again, and refused if the lease that it made was over by then.
        ends += [max(k.sent, alive) + int(early * k.lease) for k in self.refused if k.op == "K" and k.answered >= newest]
        released = self.released
        self.earliest_lease_end = max(alive, min(ends))
        self.earliest_end = max(alive, released.sent) if released else self.earliest_lease_end

    def derive_latest_end(self, case):
        released = self.released
        if released:
            self.due_end = self.latest_end = released.answered
            return
        self.due_end = self.due_lease_end(case)
        self.latest_end = case.stretch(self.acquire.answered, self.due_end)

    def due_lease_end(self, case, touch=None):
        """When its lease was over at the latest, without faults; or would have been for a touch, if that one had no
        effect. Whatever was done before a renewal that was confirmed counts no more."""
        renewals = [k for k in self.renewals if touch is None or (k is not touch and k.sent <= touch.answered)]
        newest = max((k.sent for k in renewals if k.outcome == "K"), default=0)
        done = [(self.acquire.answered, self.acquire.lease)] + [(case.done_by(k), k.lease) for k in renewals]
        return max(at + int(case.limits.slow * lease) for at, lease in done if at >= newest)

    def certain(self, case, share):
        """[(from, to)]: when its client was certain of it: as it says, or if leases hold for this share of them."""
        bases = [self.acquire] + [k for k in self.renewals if k.outcome == "K"]
        intervals = []
        for base in bases:
            begin, sent = base.answered, base.sent
            end = base.answer.get("until", sent + int(share * base.lease))
            end = min([end] + [r.sent for r in self.releases if case.done_by(r) >= sent])
            refused = [k for k in self.refused if k.op == "K"]
            for k in self.renewals + refused:  # one that may come after this one may make the lease shorter
                if k is not base and case.done_by(k) >= sent:
                    end = min(end, max(k.sent, sent) + int(share * k.lease))
            if begin < end:
                intervals.append((begin, end))
        return intervals


class Key:
    def __init__(self, name):
        self.name = name
        self.acquires = []
        self.holds = []  # by token
        self.unknown = []  # acquires that may have been granted
        self.strange = []  # touches with tokens that nobody was told for this key


class Case:
    """A history, sorted by keys."""

    def __init__(self, history, limits):
        self.history, self.limits = history, limits
        self.late = limits.late_ms * 1_000_000
        self._windows = self._merge_faults()
        self.keys = {}
        self.holds = {}  # token -> Hold
        self.violations = []
        self.checked = collections.Counter()  # rule -> how many things it looked at
        for acquire in history.acquires:
            key = self.keys.setdefault(acquire.key, Key(acquire.key))
            key.acquires.append(acquire)
            if acquire.outcome == "A":
                self._add_hold(key, Hold(acquire))
            elif acquire.outcome is None:
                key.unknown.append(acquire)
        for touch in history.touches:
            self._add_touch(touch)
        for key in self.keys.values():
            key.holds.sort(key=lambda hold: hold.token)

    def _add_hold(self, key, hold):
        other = self.holds.setdefault(hold.token, hold)
        if other is hold:
            key.holds.append(hold)
        else:
            a, b = other.acquire, hold.acquire
            self.report("tokens", "token %d was granted twice" % hold.token, a.event, a.answer, b.event, b.answer)

    def _add_touch(self, touch):
        hold = self.holds.get(touch.token)
        if hold is not None and hold.acquire.key == touch.key:
            hold.add(touch)
        else:
            self.keys.setdefault(touch.key, Key(touch.key)).strange.append(touch)

    def report(self, rule, text, *events):
        self.violations.append(Violation(rule, text, [event for event in events if event]))

    # Faults

    def _merge_faults(self):
        grace = self.limits.grace_ms * 1_000_000
        windows = []
        for fault in self.history.faults:  # in the order of their begin
            end = FOREVER if fault.end is None else fault.end + grace
            if windows and fault.begin <= windows[-1][1]:
                windows[-1][1] = max(windows[-1][1], end)
            else:
                windows.append([fault.begin, end])
        return windows

    def in_fault(self, begin, end):
        """Whether any fault may have had to do with what happened from begin to end."""
        at = bisect.bisect_right(self._windows, [end, FOREVER])
        return at > 0 and self._windows[at - 1][1] >= begin

    def stretch(self, begin, end):
        """`end`, made later by what faults from `begin` on may cost, and by the bound of lateness."""
        end += self.late
        at = max(0, bisect.bisect_right(self._windows, [begin, FOREVER]) - 1)
        for window in self._windows[at:]:
            if window[0] > end:
                break
            if window[1] > begin:
                if window[1] == FOREVER:
                    return FOREVER
                end += window[1] - max(begin, window[0])
        return end

    def excused(self, node, begin, end):
        """Whether a fault of this node may be why its connection ended between begin and end. Who sent something into a
        silence repeats it in ever longer pauses, and so may hear of the end as long after the silence as that was."""
        return self.first_excuse(node, begin, end, echo=1) is not None

    def first_excuse(self, node, begin, end, echo=0):
        """When the first fault of this node began that may have had to do with what happened from begin to end; or None."""
        grace = self.limits.grace_ms * 1_000_000
        for fault in self.history.faults:
            if node not in fault.nodes or fault.begin > end:
                continue
            if fault.end is None or fault.end + grace + echo * (fault.end - fault.begin) >= begin:
                return fault.begin
        return None

    def done_by(self, request):
        """When a request has had its effect at the latest, or never will have one."""
        if request.answered is not None:
            return request.answered
        closed = request.conn.closed
        return FOREVER if closed is None else self.stretch(request.sent, closed)
