"""What the comparisons have in common: reports of lq_bench, read from their JSON, by series."""

import json
import statistics
import sys

# Other processes with more than this share of a processor disturb a run: with two processors, client and server need both.
DISTURBED = 0.2


def check_clean(reports):
    """Nobody is refused: own keys are free, and a wait on a shared one outlasts the run. Otherwise it measured something else."""
    for report in reports:
        if report["errors"] or report["timeouts"] or report["busy"] or report["not_held"] or not report["pairs"]:
            sys.exit("a run was not clean, so nothing can be compared: %s" % json.dumps(report))


def median(reports, value):
    return statistics.median(value(r) for r in reports)


def ratio(ours, theirs):
    """The median of the ratios of pairs/s, round by round."""
    return statistics.median(ratios(ours, theirs))


def ratios(ours, theirs):
    return [a["pairs_per_s"] / b["pairs_per_s"] for a, b in zip(ours, theirs)]


def warn_if_disturbed(by_series):
    runs = [r for reports in by_series.values() for r in reports]
    disturbed = sum(1 for r in runs if r["others_busy"] > DISTURBED)
    if disturbed:
        print("careful: in %d of %d runs other processes took more than %.0f %% of a processor"
              % (disturbed, len(runs), DISTURBED * 100))  # fmt: skip
