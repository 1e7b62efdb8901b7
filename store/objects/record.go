package objects

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// The words of a record's first line.
const (
	version   = "leader/1"
	live      = "live"
	tombstone = "tombstone"
)

// maxHeader is more than the first line of a record may have.
const maxHeader = 64

// limit exceeds all revisions that are believed. After any content of a stranger
// a key must have a next revision, and one that records can state: below 2^53.
// The clock reaches it in the year 2255.
const limit = 1<<53 - 1

// encode returns the content of a record.
func encode(revision uint64, dead bool, value []byte) []byte {
	kind := live
	if dead {
		kind = tombstone
	}
	head := fmt.Sprintf("%s %d %s ", version, revision, kind)
	content := make([]byte, 0, maxHeader+len(value))
	content = append(content, head...)
	content = append(content, sum(head, value)...)
	content = append(content, '\n')
	return append(content, value...)
}

// decode reads what encode has written. Other content is foreign.
func decode(content []byte) (revision uint64, dead bool, value []byte, ok bool) {
	line, value, found := bytes.Cut(content, []byte("\n"))
	words := strings.Split(string(line), " ")
	if !found || len(words) != 4 || words[0] != version {
		return 0, false, nil, false
	}
	revision, err := strconv.ParseUint(words[1], 10, 64)
	dead = words[2] == tombstone
	head := string(line[:len(line)-len(words[3])])
	if err != nil || revision == 0 || revision >= limit || !dead && words[2] != live || words[3] != sum(head, value) {
		return 0, false, nil, false
	}
	return revision, dead, value, true
}

// sum is a digest of a record. It detects accidents, and does not protect
// against forgery.
func sum(head string, value []byte) string {
	h := sha256.New()
	h.Write([]byte(head))
	h.Write(value)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// trust is how far a machine's clock may be from the system's to be used. The
// system's is known by the second.
const trust = 2 * time.Second

// instant returns the time in microseconds, by the machine's clock within the
// bounds of the system's.
func instant(machine, system time.Time) uint64 {
	if !system.IsZero() {
		if low := system.Add(-trust); machine.Before(low) {
			machine = low
		}
		if high := system.Add(trust); machine.After(high) {
			machine = high
		}
	}
	return uint64(max(machine.UnixMicro(), 1))
}

// Names of objects. A slash of a key is written as an exclamation mark, so that
// no key is a folder of another, and each piece of a name is one that file
// systems take: gateways in front of these make files of objects.
const (
	slash = "!"
	piece = 200
	more  = "'/" // after a piece that is not the last
)

// encodeName returns the name of a key's object, without the prefix.
func encodeName(key string) string {
	name := strings.ReplaceAll(key, "/", slash)
	var b strings.Builder
	for len(name) > piece {
		b.WriteString(name[:piece] + more)
		name = name[piece:]
	}
	return b.String() + name
}

// decodeName reads what encodeName has written.
func decodeName(name string) (key string, ok bool) {
	key = strings.ReplaceAll(strings.ReplaceAll(name, more, ""), slash, "/")
	return key, store.ValidKey(key) && encodeName(key) == name
}

// listName returns how the names begin of all keys that may match the pattern.
func listName(pattern string) string {
	return encodeName(base.Literal(pattern))
}
