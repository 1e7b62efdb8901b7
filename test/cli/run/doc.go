// Package run puts leader run through trials: real processes of the built
// command on a real server, faults of every kind, and a record of every few
// milliseconds in which a program ran. No two terms' programs may ever have run
// at the same time.
//
//	go test ./test/cli/run -run TestNoTwoProgramsEverRun -v -args -trials=240 -arenas=2 -seed=1
package run
