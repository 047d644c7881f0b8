#!/bin/sh
# Run every fuzz target in turn.
#
#   tools/fuzz.sh [TIME [PACKAGE…]]
#
# TIME is how long each target runs (default 1m; 1h for a thorough run). Without
# packages, all targets of the repository run. A failing input is written to the
# package's testdata/fuzz and its path is printed: fix the fault and commit the
# input, so that plain `go test` replays it. PARALLEL sets the number of fuzzing
# processes (default 1). The exit status is 1 if any target has failed.
set -u
cd "$(dirname "$0")/.." || exit 1
time=${1:-1m}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- ./...

failed=0
for dir in $(go list -f '{{.Dir}}' "$@"); do
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' | sort); do
		echo "== $(date -u +%H:%M:%S) ${dir#"$PWD"/} $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s -parallel "${PARALLEL:-1}" "$dir" || failed=1
	done
done
exit $failed
