// Package upgrade_test runs candidates of an earlier commit and of this tree in
// one group, while the group is upgraded and rolled back one host at a time, and
// fails if two programs of leader run ever ran at one instant.
//
// Run it before each release. The flag -old names the earlier commit, in any
// form that git accepts. Leaders of the default commit offer their records, and
// followers nominate one another (docs/contributing/adr/0008 and 0009).
//
//	go test ./test/labs/upgrade -v -args -old v0.1.0
//
// Three hosts run the command, against a nats-server with files. At each
// mixture of versions a leader of each version hands over, is killed, and is
// asked to step down by the command of each version; the group is paused by one
// version and resumed by the other; and a run of --once begins on one host of
// three. After each act the lab waits for the next leader, and the readers of
// both versions have to name that leader.
//
// The program of leader run is this test's executable. Each millisecond it
// appends the instant to its own file, by the clock that all processes of the
// machine share. The judge (judge_test.go) reads nothing except these files.
//
// The test is skipped where the earlier commit is absent, as in a shallow clone,
// unless -old names it or LEADER_SERVERS contains "all".
package upgrade_test
