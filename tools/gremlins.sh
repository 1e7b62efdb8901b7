#!/bin/sh
# gremlins.sh [FILE...]: lets gremlins mutate the core, file after file (half an
# hour); docs/evidence/mutants.md says what the survivors are.
#
# File after file, since a run that is ended early reports nothing. -count=1,
# since gremlins gives a mutant a multiple of the time that the tests took
# without it: from the cache they take none, and every mutant times out. No
# --test-cpu: version 0.6.0 passes it as a flag that does not exist, and every
# mutant counts as killed.
set -eu
cd "$(dirname "$0")/.."
bin=$PWD/.bin
[ -x "$bin/gremlins" ] || GOBIN=$bin go install github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
all=$(cd internal/machine && ls ./*.go | sed 's|./||' | grep -v _test.go)
for file in ${*:-$all}; do
	set --
	for other in $all; do [ "$other" = "$file" ] || set -- "$@" -E "(^|/)$other\$"; done
	echo "gremlins: $file"
	GOFLAGS="-short -vet=off -count=1" "$bin/gremlins" unleash --workers 1 --timeout-coefficient 10 --invert-logical "$@" ./internal/machine
done
