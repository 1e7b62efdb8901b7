//go:build unix

package proxy_test

import (
	"fmt"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// A frame is what a client sent at once, as an instance noted it.
type frame struct {
	conn       uint64 // of the instance, from 1 on
	read, sent int64  // in nanoseconds, by the clock that all share
}

// A record is what one process of an instance read.
type record struct {
	name   string
	frames []frame
}

// A span is a time in which the proxy, cut off from the store for longer than a
// lease, can know of no leader.
type span struct{ from, to int64 }

// uses returns the connections to a process: each was certainly carried from
// the first time that something was read to the last time that something was
// sent that arrived.
func (r record) uses() []overlap.Span {
	var all []overlap.Span
	at := map[uint64]int{}
	for _, f := range r.frames {
		i, ok := at[f.conn]
		if !ok {
			i = len(all)
			at[f.conn] = i
			all = append(all, overlap.Span{Who: r.name, From: f.read, To: f.sent})
		}
		all[i].From, all[i].To = min(all[i].From, f.read), max(all[i].To, f.sent)
	}
	return all
}

// judge returns what must not be. A frozen process reads late, and a busy one
// too, which only shortens what it is held to: no machine is too slow for it.
//
//   - A proxy without a grace cuts the connections to one leader before it
//     connects to the next: no two processes are in use at the same time.
//   - A proxy that knows of no leader carries nothing: what was sent while it
//     was blind is not read before it sees again.
func judge(records []record, blind []span) []error {
	var found []error
	var all []overlap.Span
	for _, r := range records {
		all = append(all, r.uses()...)
		for _, f := range r.frames {
			for _, s := range blind {
				if f.sent > s.from && f.read < s.to {
					found = append(found, fmt.Errorf("%s read at %d what was sent at %d, while the proxy could know of no leader (%d to %d)", r.name, f.read, f.sent, s.from, s.to))
				}
			}
		}
	}
	for a, b := range overlap.Pairs(all) {
		found = append(found, fmt.Errorf("two were sent to at the same time: %+v and %+v", all[a], all[b]))
	}
	return found
}

func TestTheJudgeCondemnsWhatMustNotBe(t *testing.T) {
	x := func(frames ...frame) record { return record{"x", frames} }
	y := func(frames ...frame) record { return record{"y", frames} }
	for name, c := range map[string]struct {
		records []record
		blind   []span
		faults  int
	}{
		"one after the other":                       {[]record{x(frame{1, 11, 10}, frame{1, 21, 20}), y(frame{1, 31, 30})}, nil, 0},
		"read late":                                 {[]record{x(frame{1, 11, 10}, frame{1, 99, 20}), y(frame{1, 31, 30}, frame{1, 41, 40})}, nil, 0},
		"sent early":                                {[]record{x(frame{1, 11, 10}, frame{1, 21, 20}), y(frame{1, 31, 5})}, nil, 0},
		"two of one instance":                       {[]record{x(frame{1, 11, 10}, frame{2, 12, 11}, frame{1, 21, 20}, frame{2, 22, 21})}, nil, 0},
		"sent to the former after the next":         {[]record{x(frame{1, 11, 10}, frame{1, 36, 35}), y(frame{1, 31, 30}, frame{1, 41, 40})}, nil, 1},
		"the same by another connection":            {[]record{x(frame{1, 11, 10}, frame{2, 32, 31}, frame{2, 36, 35}), y(frame{1, 31, 30}, frame{1, 41, 40})}, nil, 1},
		"sent and read while nobody may":            {[]record{x(frame{1, 16, 15})}, []span{{10, 20}}, 1},
		"sent before, and sent meanwhile for later": {[]record{x(frame{1, 16, 9}, frame{1, 21, 15})}, []span{{10, 20}}, 0},
	} {
		if found := judge(c.records, c.blind); len(found) != c.faults {
			t.Errorf("%s: %v, want %d", name, found, c.faults)
		}
	}
}
