#!/usr/bin/env bash
# A cluster of Loquet beside a three-node etcd and the durable floor (floor.h): the same load generator, the same shape, in
# one run, in alternating rounds. Prints medians and ratios, and fails if a goal is missed (cluster_report.py has the goals).
#
#   LOQUETD=path/to/loquetd LQ_BENCH=path/to/lq_bench tests/bench/compare_cluster.sh [options]     (--help lists them)
#
# The default programs are those of the release build. Missing packages are installed with apt-get, as root or through sudo.
# Everything listens on free ports of 127.0.0.1, keeps its files in a temporary folder, and is gone at the end.
# Exit status: 0 all goals met, 1 a goal missed or a run failed, 64 bad options, 69 something missing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
case " $* " in
*" --help "* | *" -h "*) ;;
*) "$here/../../deploy/install-deps.sh" bench ;;
esac
exec /usr/bin/python3 "$here/compare_cluster.py" "$@"
