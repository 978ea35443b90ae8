"""Waiting: first come first served, T only while somebody holds the key, and grants that come in time."""

import bisect
import itertools

from case import FOREVER
from rules_holds import possible_holders, unknown_span


def mark_positions(case):
    """{acquire: time from which it certainly stood in its queue (or had left it again)}: after the bound of lateness. And
    a connection's requests take effect in the order in which they were sent, so an acquire was there when anything sent
    behind it was answered out of the table of locks (A, R, K, N; a T, B or pong may come from elsewhere)."""
    positions = {}
    for conn in case.history.connections.values():
        soonest = FOREVER
        for operation in reversed(conn.operations):
            if hasattr(operation, "owner"):
                positions[operation] = min(soonest, case.stretch(operation.sent, operation.sent))
            if operation.outcome in ("A", "R", "K", "N"):
                soonest = min(soonest, operation.answered)
    return positions


def waits_until(case, acquire):
    """Up to when an acquire that got no grant certainly waits, once it stands in its queue. A node that is cut off loses
    its waiters, long before it hears of that itself."""
    until = acquire.sent + int(0.99 * acquire.wait)
    for end in (acquire.answered, acquire.cancelled, acquire.conn.closed, acquire.conn.shut):
        if end is not None:
            until = min(until, end)
    fault = case.first_excuse(acquire.conn.node, acquire.sent, until)
    return until if fault is None else min(until, fault)


def check_fifo(case, positions):
    """Whoever certainly stood in the queue before another asked is granted before it."""
    for key in case.keys.values():
        later = sorted((hold for hold in key.holds), key=lambda hold: hold.acquire.sent)
        sent = [hold.acquire.sent for hold in later]
        least_token, least_answer = _suffix_least(later)
        for acquire in key.acquires:
            position = positions[acquire]
            if acquire.wait == 0 or acquire.outcome == "B":
                continue
            at = bisect.bisect_right(sent, position)
            if at == len(later):
                continue
            case.checked["fifo"] += 1
            if acquire.outcome == "A":
                other = least_token[at]
                wrong = other.token < acquire.token and position < acquire.answered
            else:
                other = least_answer[at]
                wrong = other.acquire.answered < waits_until(case, acquire)
            if wrong:
                text = "owner %d waited for %r before owner %d asked, which was granted first" % (
                    acquire.owner, key.name, other.acquire.owner)  # fmt: skip
                case.report("fifo", text, acquire.event, other.acquire.event, other.acquire.answer, acquire.answer)


def _suffix_least(holds):
    """For each place in the list, the hold from there on with the least token, and the one that was told first."""
    tokens, answers = [None] * len(holds), [None] * len(holds)
    token = answer = None
    for at in range(len(holds) - 1, -1, -1):
        hold = holds[at]
        if token is None or hold.token < token.token:
            token = hold
        if answer is None or hold.acquire.answered < answer.acquire.answered:
            answer = hold
        tokens[at], answers[at] = token, answer
    return tokens, answers


def free_gap(spans, starts, begin, end):
    """A time within [begin, end] at which certainly nobody held the key, or None."""
    at = bisect.bisect_right(starts, begin) - 1
    if at < 0 or spans[at][1] < begin:
        return begin
    return spans[at][1] if spans[at][1] < end else None


def check_timeouts(case, positions):
    """T is true: somebody held the key; and it is not said before the wait is over, unless it was cancelled."""
    for key in case.keys.values():
        spans = possible_holders(case, key)
        starts = [span[0] for span in spans]
        for acquire in key.acquires:
            if acquire.outcome != "T":
                continue
            case.checked["T"] += 1
            if acquire.wait == 0:
                held = _touches(spans, starts, acquire.sent, acquire.answered)
            else:
                _check_early(case, acquire)
                held = not _was_passed_over(case, acquire, positions[acquire], spans, starts)
            if not held:
                text = "T for owner %d, though nobody can have held %r" % (acquire.owner, key.name)
                case.report("T", text, *_last_release(key, acquire), acquire.event, acquire.answer)


def _touches(spans, starts, begin, end):
    at = bisect.bisect_right(starts, end) - 1
    return at >= 0 and spans[at][1] >= begin


def _was_passed_over(case, acquire, position, spans, starts):
    """Whether the key was free for a moment in which the acquire certainly stood in the queue. It stood there from at
    the latest its wait before T, unless it left early; without a leader it may have stood nowhere."""
    begin, end = acquire.answered - int(0.99 * acquire.wait), waits_until(case, acquire)
    begin = position if begin < acquire.sent else min(begin, position)
    if begin >= end or case.in_fault(acquire.sent, acquire.answered):
        return False
    return free_gap(spans, starts, begin, end) is not None


def _check_early(case, acquire):
    was_ended = acquire.cancelled or acquire.conn.shut or acquire.conn.error
    if was_ended or acquire.answered >= acquire.sent + int(0.99 * acquire.wait):
        return
    if not case.excused(acquire.conn.node, acquire.sent, acquire.answered):  # a node that stops says T first
        text = "T for owner %d came %.3f s before its wait was over" % (
            acquire.owner, (acquire.sent + acquire.wait - acquire.answered) / 1e9)  # fmt: skip
        case.report("T", text, acquire.event, acquire.answer)


def _last_release(key, acquire):
    """The release that made the key free, to show it."""
    done = [hold.released for hold in key.holds if hold.released and hold.released.answered <= acquire.answered]
    last = max(done, key=lambda release: release.answered, default=None)
    return (last.event, last.answer) if last else ()


def check_busy(case):
    """B only where the history has reasons for it."""
    for acquire in case.history.acquires:
        if acquire.outcome == "B":
            case.checked["B"] += 1
            if not case.limits.busy and not case.in_fault(acquire.sent, acquire.answered):
                case.report("B", "B, though no cap was near and no fault", acquire.event, acquire.answer)


def check_late_grants(case):
    """A comes in time once the key is free: the end of a lease, or a release, is seen by those who wait. As long as
    somebody whose answer got lost may hold it, nobody knows."""
    for key in case.keys.values():
        lost = sorted(unknown_span(case, key, acquire) for acquire in key.unknown)
        begins = [begin for begin, _ in lost]
        ends = list(itertools.accumulate((end for _, end in lost), max))
        before = None
        for hold in key.holds:
            at = bisect.bisect_right(begins, hold.acquire.answered)
            _check_late(case, hold, before, ends[at - 1] if at else 0)
            before = hold


def _check_late(case, hold, before, lost_end):
    """`lost_end`: up to when others may have held the key without anybody's knowledge."""
    if lost_end == FOREVER:
        return
    acquire = hold.acquire
    due = case.stretch(acquire.sent, acquire.sent)
    if before is not None and before.due_end > acquire.sent:
        due = case.stretch(before.acquire.answered, before.due_end)
    if lost_end > acquire.sent:
        due = max(due, case.stretch(lost_end, lost_end))
    case.checked["late"] += 1
    if acquire.answered > due:
        text = "token %d of %r was told %.3f s after it was due" % (
            hold.token, acquire.key, (acquire.answered - due + case.late) / 1e9)  # fmt: skip
        case.report("late", text, before and before.acquire.answer, acquire.event, acquire.answer)
