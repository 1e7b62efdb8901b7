package faultstore

import (
	"maps"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A history is what the registers were: a state, and the changes since.
type history struct {
	base     map[string]store.Entry
	baseLast uint64
	log      []change
}

// A change is one register's state from an instant on.
type change struct {
	since time.Time
	entry store.Entry
	last  uint64 // the counter of revisions after the change
}

// add appends a change, and folds those older than memory into the base.
func (h *history) add(now time.Time, memory time.Duration, e store.Entry, last uint64) {
	h.log = append(h.log, change{now, e, last})
	old := 0
	for old < len(h.log) && h.log[old].since.Before(now.Add(-memory)) {
		h.base[h.log[old].entry.Key] = h.log[old].entry
		h.baseLast = h.log[old].last
		old++
	}
	h.log = h.log[old:]
}

// last returns the counter as it is.
func (h *history) last() uint64 {
	if n := len(h.log); n > 0 {
		return h.log[n-1].last
	}
	return h.baseLast
}

// at returns all registers and the counter as they were at the instant.
func (h *history) at(t time.Time) (map[string]store.Entry, uint64) {
	state, last := maps.Clone(h.base), h.baseLast
	for _, c := range h.log {
		if c.since.After(t) {
			break
		}
		state[c.entry.Key], last = c.entry, c.last
	}
	return state, last
}

// of returns one register as it was at the instant.
func (h *history) of(key string, t time.Time) store.Entry {
	for _, c := range slices.Backward(h.log) {
		if c.entry.Key == key && !c.since.After(t) {
			return c.entry
		}
	}
	if e, ok := h.base[key]; ok {
		return e
	}
	return store.Entry{Key: key}
}
