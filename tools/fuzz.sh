#!/bin/sh
# fuzz.sh TIME: runs every fuzz target of the project for TIME, for make fuzz.
set -eu
cd "$(dirname "$0")/.."
for dir in $(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n 1 dirname | sort -u); do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -c6-); do
		echo "fuzz: $dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$dir"
	done
done
