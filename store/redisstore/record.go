package redisstore

import (
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// A record is stored as one string: a line of words, and the value after it.
//
//	leader/1 1732329600000000 live
//	{"id":"host-1",…}
//
// A single command replaces a single string, and a foreign SET replaces all of
// it: the new content then has no such line.
const (
	mark      = "leader/1"
	live      = "live"
	tombstone = "tombstone"
)

// maxRevision is the largest number up to which Lua counts by one. A server's
// clock in microseconds comes to it in the year 2255.
const maxRevision = 1<<53 - 1

// parse reads a record. It reports whether the content is one.
func parse(key, content string) (store.Entry, bool) {
	line, value, ok := strings.Cut(content, "\n")
	words := strings.Split(line, " ")
	if !ok || len(words) != 3 || words[0] != mark || words[2] != live && words[2] != tombstone {
		return store.Entry{}, false
	}
	// Leading zeros and signs would make two spellings of a revision.
	rev, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil || rev == 0 || rev >= maxRevision || strconv.FormatUint(rev, 10) != words[1] {
		return store.Entry{}, false
	}
	return store.Entry{Key: key, Revision: rev, Value: []byte(value), Tombstone: words[2] == tombstone}, true
}

// state is the word for a write's kind.
func state(w store.Write) string {
	if w.Tombstone {
		return tombstone
	}
	return live
}
