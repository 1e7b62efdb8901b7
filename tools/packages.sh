#!/bin/sh
# packages.sh STAGE [OUTSIDE...]: lists the packages with tests that belong to a
# stage (test, race, labs, or ci for CI's slice of the labs), without those in
# the directories OUTSIDE, whose modules are not in the workspace.
#
# The directory of a package decides its stage. Labs are test/labs, the examples,
# the modules of clients, which are consul, etcd, kubernetes and those below
# store: they need servers or a browser, or take minutes to fetch and to compile.
set -eu
cd "$(dirname "$0")/.."
stage=$1; shift
clients=$(find consul etcd kubernetes store -name go.mod ! -path '*/judge/*' -exec dirname {} + | sort | paste -s -d '|' -)
labs="^\./(test/labs|examples|$clients)(/|\$)"
outside="^\./($(echo "${@:-none}" | tr ' ' '|'))(/|\$)"

found() {
	find . -name '*_test.go' ! -path './.*' ! -path '*/testdata/*' -exec dirname {} + | sort -u | grep -Ev "$outside"
}

# Whether code or tests have goroutines; others cannot race.
concurrent() { grep -qE '^[[:space:]]*go |"sync(/atomic)?"' "$1"/*.go; }

case $stage in
test) found | grep -Ev "$labs" ;;
race) for dir in $(found | grep -Ev "$labs"); do ! concurrent "$dir" || echo "$dir"; done ;;
labs) found | grep -E "$labs" ;;
# Without examples/sqlitestore, whose driver takes minutes to compile.
ci) found | grep -E '^\./(examples|store/(pg|redis)store|etcd/etcdstore|test/labs/(dash|chaos|stores/(pgstore|redis|etcdstore)))(/|$)' | grep -v sqlitestore ;;
*) echo "packages.sh: unknown stage: $stage" >&2; exit 2 ;;
esac
