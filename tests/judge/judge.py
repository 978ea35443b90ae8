#!/usr/bin/python3
"""Judges histories of a lock service.

    tests/judge/judge.py [options] HISTORY...

The files (see history.py) are one history together. Prints what was looked at and every rule that was broken, with the
events that show it; exit status 0 if none was, 1 if one was, 2 if the history is none.

Rules: answers (each request once, and only what was asked), tokens (they rise with real time, over all keys; none twice),
one holder (grants, releases, renewals and ends of leases have an order in which the key has one holder at a time and no
lease is cut short), certain leases (no two clients are certain of a key), store (the fenced store), N (not for a token that
certainly holds), R and K (only for one that may), fifo, T (nobody was passed over), B, late, in time, connections, progress.
"""

import argparse
import sys

import rules_holds
import rules_queue
import rules_service
from case import Case, Limits
from history import NS, BadHistory, History, load

SHOWN = 20  # violations that are printed in full


def judge(events, limits=None):
    """The Case, with its violations."""
    case = Case(History(events), limits or Limits())
    rules_service.check_answers(case)
    rules_holds.check_token_order(case)
    rules_holds.check_linear(case)
    rules_holds.check_certain(case)
    rules_holds.check_store(case)
    rules_holds.check_touches(case)
    positions = rules_queue.mark_positions(case)
    rules_queue.check_fifo(case, positions)
    rules_queue.check_timeouts(case, positions)
    rules_queue.check_busy(case)
    rules_queue.check_late_grants(case)
    rules_service.check_connections(case)
    rules_service.check_answered(case)
    rules_service.check_progress(case)
    return case


def describe(event, begin):
    """An event as a line for people: seconds since the begin, who, what."""
    rest = {name: value for name, value in event.items() if name not in ("t", "e", "conn", "op")}
    words = ["%s %s" % item for item in rest.items()]
    where = "conn %s" % event["conn"] if "conn" in event else ""
    return "%12.6f  %-10s %-7s %-2s %s" % (
        (event["t"] - begin) / NS, where, event["e"], event.get("op", ""), ", ".join(words))  # fmt: skip


def tell(case, out=sys.stdout):
    """The verdict for people."""
    history = case.history
    seconds = (history.end - history.begin) / NS
    print(
        "%d acquires, %d releases and renewals, %d keys, %d connections, %d faults in %.1f s"
        % (len(history.acquires), len(history.touches), len(case.keys), len(history.connections),
           len(history.faults), seconds), file=out)  # fmt: skip
    for event in history.torn:
        print("%s breaks off, so only what was before is judged" % event["file"], file=out)
    counts = {}
    for operation in history.acquires + history.touches:
        name = operation.outcome or "unknown"
        counts[name] = counts.get(name, 0) + 1
    print("outcomes: " + ", ".join("%s %d" % item for item in sorted(counts.items())), file=out)
    print("looked at: " + ", ".join("%s %d" % item for item in sorted(case.checked.items())), file=out)
    refused = sum(not event["ok"] for event in history.stores)
    lost = sum("lost" in event for event in history.stores)
    if history.stores:
        print("store: %d writes, %d of holders whose time was over, which it refused; without a fence %d times an older "
              "holder would have written over a newer one" % (len(history.stores), refused, lost), file=out)  # fmt: skip
    for violation in case.violations[:SHOWN]:
        print("\nBROKEN: %s: %s" % (violation.rule, violation.text), file=out)
        for event in sorted(violation.events, key=lambda event: event["t"]):
            print("  " + describe(event, history.begin), file=out)
    if len(case.violations) > SHOWN:
        print("\n... and %d more" % (len(case.violations) - SHOWN), file=out)
    if case.violations:
        broken = {}
        for violation in case.violations:
            broken[violation.rule] = broken.get(violation.rule, 0) + 1
        print("\nverdict: BAD: " + ", ".join("%s (%d)" % item for item in broken.items()), file=out)
    else:
        print("verdict: good", file=out)


def parse_options():
    defaults = Limits()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", nargs="+")
    parser.add_argument("--late-ms", type=int, default=defaults.late_ms, help="bound of lateness without faults")
    parser.add_argument("--grace-ms", type=int, default=defaults.grace_ms, help="a fault excuses so long after its end")
    parser.add_argument("--answer-s", type=float, default=defaults.answer_s, help="whatever need not wait is answered within")
    parser.add_argument("--lazy", action="store_true", help="simple mode: a release after the lease may get R")
    parser.add_argument("--no-busy", action="store_true", help="no cap is near, so B needs a fault")
    return parser.parse_args()


def main():
    options = parse_options()
    limits = Limits(
        late_ms=options.late_ms, grace_ms=options.grace_ms, answer_s=options.answer_s, exact=not options.lazy,
        busy=not options.no_busy,
    )  # fmt: skip
    try:
        case = judge(load(options.history), limits)
    except (BadHistory, OSError) as trouble:
        print("no verdict: %s" % trouble)
        return 2
    tell(case)
    return 1 if case.violations else 0


if __name__ == "__main__":
    sys.exit(main())
