#!/bin/sh
# raced.sh PROGRAM [ARGUMENT...]: runs a test program that was built with the
# race detector, for go test -exec.
#
# Where the detector itself failed the program is run once more. Under
# testing/synctest two goroutines that look at timers of which the time has come
# share one state of the detector, and it may end the program at any of them (Go
# 1.26, go.dev/issue/78156; docs/evidence/track-record.md). That says nothing of the test.
# Whatever else fails has failed.
#
# What the program prints is shown when it has ended.
export CGO_ENABLED=0 # for the programs that a test builds
log=$(mktemp) || exit
trap 'rm -f "$log"' EXIT
for try in first last; do
	"$@" >"$log" 2>&1
	code=$?
	cat "$log"
	[ $code != 0 ] && [ $try = first ] && grep -q '^ThreadSanitizer: CHECK failed' "$log" || break
	echo "raced.sh: the race detector failed, not the test: once more"
done
exit $code
