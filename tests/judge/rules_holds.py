"""Who holds a key, and when: tokens, mutual exclusion, leases, R, K and N."""

from case import FOREVER

SPAN = "token %d of %r"


def check_token_order(case):
    """One counter for the whole service: when a grant was told before an acquire was even sent, its token is smaller."""
    holds = sorted(case.holds.values(), key=lambda hold: hold.acquire.sent)
    told = sorted(case.holds.values(), key=lambda hold: hold.acquire.answered)
    at, greatest = 0, None
    for hold in holds:
        while at < len(told) and told[at].acquire.answered < hold.acquire.sent:
            if greatest is None or told[at].token > greatest.token:
                greatest = told[at]
            at += 1
        case.checked["tokens"] += 1
        if greatest is not None and greatest.token >= hold.token:
            text = "token %d was told before token %d was asked for, and is not smaller" % (greatest.token, hold.token)
            case.report("tokens", text, greatest.acquire.answer, hold.acquire.event, hold.acquire.answer)


def check_linear(case):
    """Each key's grants in the order of their tokens, each as early as it can have been: the one before must have ended,
    by a release or by its lease. No grant may have been told before that. This is a search for a linear order of
    acquires, releases, renewals and expiries; as tokens give the order, there is only one to try."""
    for key in case.keys.values():
        before = None
        for hold in key.holds:
            if before is not None:
                hold.low = max(hold.acquire.sent, before.earliest_end)
                case.checked["one holder"] += 1
                if hold.low > hold.acquire.answered:
                    _report_overlap(case, before, hold)
                    hold.low = hold.acquire.sent
            hold.derive_earliest_end(case)
            before = hold
        for hold in key.holds:
            hold.derive_latest_end(case)
        for hold, after in zip(key.holds, key.holds[1:]):
            hold.latest_end = min(hold.latest_end, after.acquire.answered)


def _report_overlap(case, before, hold):
    a, b = before.acquire, hold.acquire
    if before.low > b.answered:
        text = "%s was granted before token %d, which is smaller" % (SPAN % (hold.token, b.key), before.token)
        case.report("tokens", text, a.event, a.answer, b.event, b.answer)
        return
    released = before.released
    touches = [k for k in before.renewals if k.outcome == "K"] + ([released] if released else [])
    last = max(touches, key=lambda touch: touch.sent, default=None)
    text = "%s was granted while token %d was held: %s" % (
        SPAN % (hold.token, b.key),
        before.token,
        "it was released later" if released else "not released, and its lease not at its end",
    )
    case.report("one holder", text, a.event, a.answer, last and last.event, last and last.answer, b.event, b.answer)


def check_certain(case):
    """No two clients are certain of a key at once. Tokens play no part in it."""
    for key in case.keys.values():
        intervals = [(*span, hold) for hold in key.holds for span in hold.certain(case, case.limits.certain)]
        intervals.sort(key=lambda interval: interval[:2])
        last_end, last = 0, None
        for begin, end, hold in intervals:
            case.checked["certain leases"] += 1
            if last is not None and last is not hold and begin < last_end:
                a, b = last.acquire, hold.acquire
                text = "%s and token %d were both certain" % (SPAN % (hold.token, b.key), last.token)
                case.report("certain leases", text, a.event, a.answer, b.event, b.answer)
            if end > last_end:
                last_end, last = end, hold


def check_store(case):
    """The fenced store takes no token smaller than one that it took before, and refuses no holder that is certain."""
    greatest = {}
    for event in case.history.stores:
        case.checked["store"] += 1
        key, token = event["key"], event["token"]
        before = greatest.get(key)
        if event["ok"]:
            if before is not None and token < before["token"]:
                case.report("store", "the store itself is wrong: it took an older token of %r" % key, before, event)
            else:
                greatest[key] = event
            continue
        hold = case.holds.get(token)
        sent = event.get("sent", event["t"])
        if hold is not None and any(a <= sent and event["t"] <= b for a, b in hold.certain(case, case.limits.certain)):
            text = "the store refused %s, whose holder was certain" % (SPAN % (token, key))
            case.report("store", text, hold.acquire.event, hold.acquire.answer, before, event)


def check_touches(case):
    """R and K only for a token that holds the key, R once; N never for one that certainly does."""
    for key in case.keys.values():
        for hold in key.holds:
            _check_refused(case, hold)
            _check_confirmed(case, hold)
        for touch in key.strange:
            _check_strange(case, key, touch)


def _check_refused(case, hold):
    for touch in hold.refused:
        case.checked["N"] += 1
        if hold.acquire.answered <= touch.sent and touch.answered < hold.earliest_lease_end:
            a = hold.acquire
            text = "N for %s, which certainly held it" % (SPAN % (hold.token, a.key))
            case.report("N", text, a.event, a.answer, touch.event, touch.answer)


def _check_confirmed(case, hold):
    confirmed = [t for t in hold.renewals + hold.releases if t.outcome is not None]
    released = hold.released
    a = hold.acquire
    for touch in confirmed:
        case.checked["R and K"] += 1
        what = "%s for %s " % (touch.outcome, SPAN % (hold.token, a.key))
        if touch.answered < a.sent:
            case.report("R and K", what + "before it was granted", touch.event, touch.answer, a.event)
        elif released is not None and touch is not released and _is_after(touch, released):
            case.report("R and K", what + "after it was released", released.event, released.answer, touch.event, touch.answer)
        elif (touch.op == "K" or case.limits.exact) and touch.sent > case.stretch(a.answered, hold.due_lease_end(case, touch)):
            case.report("R and K", what + "after its lease", a.event, a.answer, touch.event, touch.answer)


def _is_after(touch, released):
    return touch.outcome == "R" or touch.sent > released.answered


def _check_strange(case, key, touch):
    """A token that nobody was told: it may be of a grant that got lost on its way, else it is none."""
    case.checked["R and K"] += 1
    if touch.outcome not in ("R", "K"):
        return
    if not any(acquire.sent < touch.answered for acquire in key.unknown):
        text = "%s for %s, which was never granted" % (touch.outcome, SPAN % (touch.token, key.name))
        case.report("R and K", text, touch.event, touch.answer)


def unknown_span(case, key, acquire):
    """(from, to): when an acquire whose answer nobody saw may have held its key."""
    closed = acquire.conn.closed
    if closed is None or any(touch.op == "K" and touch.outcome != "N" for touch in key.strange):
        return acquire.sent, FOREVER
    end = case.stretch(acquire.sent, closed + case.late + int(case.limits.slow * acquire.lease))
    for touch in key.strange:
        if touch.outcome == "R" and len(key.unknown) == 1:
            end = min(end, touch.answered)
    return acquire.sent, end


def possible_holders(case, key):
    """[(from, to)], merged: when the key may have been held by anybody."""
    spans = [(hold.acquire.sent, hold.latest_end) for hold in key.holds]
    spans += [unknown_span(case, key, acquire) for acquire in key.unknown]
    spans.sort()
    merged = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged
