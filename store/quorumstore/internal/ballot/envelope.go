package ballot

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// An envelope is what a member's register contains: a header line
//
//	leader-quorum/2 SET PROMISED BALLOT ID VERSION ANCESTORS KIND
//
// and then the value as it is. Numbers in it have one spelling each, so that an
// envelope that decodes is the one that was encoded.
const (
	envelopePrefix = "leader-quorum/"
	envelopeFormat = "2" // 1 had no ancestors, and was in no release
)

// MaxHeader is the size in bytes of the longest header.
const MaxHeader = 256

const maxVersion = 1 << 53 // as of every store's revisions

// The kinds of envelopes.
const (
	kindPromise  = "promise"  // without memory
	kindMarked   = "marked"   // without memory, over something that was not a promise
	kindFounding = "founding" // Acceptor.Founding
	kindValue    = "value"
)

// Encode returns what the member's register contains for a, and whether it
// reads as deleted to the member's ordinary tools.
func Encode(a *Acceptor) (value []byte, tombstone bool) {
	kind := kindValue
	switch {
	case a.Accepted() && a.Founding:
		kind = kindFounding
	case a.Accepted():
	case a.Marked:
		kind = kindMarked
	default:
		kind = kindPromise
	}
	return fmt.Appendf(nil, "%s%s %016x %v %v %x %d %s %s\n%s",
		envelopePrefix, envelopeFormat, a.Set, a.Promised, a.Ballot, a.ID, a.Version, chain(&a.Value), kind, a.Data), a.Tombstone || a.Version == 0
}

// noChain is the field of a value without ancestors.
const noChain = "-"

// chain returns the ancestors as an envelope contains them.
func chain(v *Value) string {
	var calls []string
	for k := 0; k < MaxChain && v.Ancestors[k] != 0; k++ {
		calls = append(calls, fmt.Sprintf("%016x", v.Ancestors[k]))
	}
	return cmp.Or(strings.Join(calls, ","), noChain)
}

// Decode returns what a member's entry contains. What another tool wrote, or
// deleted, is a member without memory that is marked. An envelope of another
// format is an error: another version of this package wrote it.
func Decode(e store.Entry) (Acceptor, error) {
	if e.Revision == 0 {
		return Acceptor{}, nil
	}
	header, data, ok := strings.Cut(string(e.Value), "\n")
	rest, ours := strings.CutPrefix(header, envelopePrefix)
	if !ok || !ours || len(header) > MaxHeader {
		return Acceptor{Marked: true}, nil
	}
	fields := strings.Split(rest, " ")
	if fields[0] != envelopeFormat {
		return Acceptor{}, fmt.Errorf("%w: read key %q: envelope has format %q: must be %q: let all programs use one version of this library",
			store.ErrPermanent, e.Key, fields[0], envelopeFormat)
	}
	a, ok := decode(fields[1:], data, e.Tombstone)
	if !ok {
		return Acceptor{Marked: true}, nil
	}
	return a, nil
}

func decode(fields []string, data string, tombstone bool) (a Acceptor, ok bool) {
	if len(fields) != 7 {
		return a, false
	}
	var good [6]bool
	a.Set, good[0] = hex64(fields[0])
	a.Promised, good[1] = parseBallot(fields[1])
	a.Ballot, good[2] = parseBallot(fields[2])
	a.ID, good[3] = parseID(fields[3])
	a.Version, good[4] = decimal(fields[4])
	good[5] = a.parseChain(fields[5])
	if good != [6]bool{true, true, true, true, true, true} || a.Set == 0 || a.Promised.Less(a.Ballot) || a.Version >= maxVersion {
		return a, false
	}
	a.Data, a.Tombstone = data, tombstone && a.Version != 0
	bare := a.ID == (ID{}) && a.Data == "" && a.Ancestors[0] == 0
	switch fields[6] {
	case kindPromise, kindMarked:
		a.Marked = fields[6] == kindMarked
		return a, !a.Accepted() && bare && a.Version == 0
	case kindFounding:
		a.Founding = true
		return a, a.Accepted() && bare
	case kindValue:
		return a, a.Accepted() && (bare || a.Version != 0 && a.ID != ID{})
	}
	return a, false
}

func parseID(s string) (id ID, ok bool) {
	if len(s) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil && s == hex.EncodeToString(id[:])
}

// parseChain reads the ancestors of v, of which each has another version.
func (v *Value) parseChain(s string) bool {
	if s == noChain {
		return true
	}
	calls := strings.Split(s, ",")
	if len(calls) > MaxChain || uint64(len(calls)) >= v.Version {
		return false
	}
	for k, text := range calls {
		call, ok := hex64(text)
		if !ok || call == 0 {
			return false
		}
		v.Ancestors[k] = Short(call)
	}
	return true
}

func parseBallot(s string) (b Ballot, ok bool) {
	counter, random, _ := strings.Cut(s, ".")
	b.Counter, ok = decimal(counter)
	if !ok {
		return b, false
	}
	b.Random, ok = hex64(random)
	return b, ok
}

func hex64(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil && s == fmt.Sprintf("%016x", n)
}

func decimal(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && s == strconv.FormatUint(n, 10)
}
