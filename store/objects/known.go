package objects

import (
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// spare is how many registers are learned of from one sweep to the next. Those
// that nobody asked for since the last one are forgotten: so up to twice as
// many are remembered beside those that are in use.
const spare = 10_000

// recall returns what is known of a register, and notes that it is in use.
func (r *registers) recall(key string) known {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, is := r.known[key]
	if is {
		r.uses++
		k.used = r.uses
		r.known[key] = k
	}
	return k
}

// learn records what was seen of a register. An older state than another call
// saw meanwhile is harmless: a tag always belongs to its entry, and a tag that
// was replaced only costs a read.
func (r *registers) learn(e store.Entry, tag string, c clock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.system.IsZero() {
		r.clock = c
	}
	if len(r.known) >= max(r.room, spare) {
		r.sweep()
	}
	r.uses++
	r.known[e.Key] = known{entry: e, tag: tag, most: max(e.Revision, r.known[e.Key].most), clock: c, used: r.uses}
}

// forget has the next write over the register read it, since one over the tag
// was refused.
func (r *registers) forget(key, tag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known[key]; k.tag == tag {
		r.known[key] = known{most: k.most}
	}
}

// begun returns a mark for missing.
func (r *registers) begun() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uses
}

// missing forgets registers whose objects have names with the given beginning,
// and that a list did not show, if nobody has asked for them or seen them since
// the mark, which is from before the list. A register that was seen to be
// missing lately is made without a read.
func (r *registers) missing(begin string, mark uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.known {
		switch {
		case k.used > mark || !strings.HasPrefix(encodeName(key), begin):
		case k.tag == "" && time.Since(k.clock.seen) < recent:
		default:
			r.drop(key, k)
		}
	}
}

// sweep forgets what nobody has asked for since the last sweep. The caller
// holds mu.
func (r *registers) sweep() {
	for key, k := range r.known {
		if k.used <= r.swept {
			r.drop(key, k)
		}
	}
	r.swept, r.room = r.uses, len(r.known)+spare
}

// drop forgets a register, but keeps a lower bound for its revisions when it is
// made again, which the clock alone does not ensure: it may be set back. A
// single revision covers all forgotten registers, as long as the clock has
// passed it, so that it delays no other register. A revision ahead of the clock
// is kept with its own key. The caller holds mu.
func (r *registers) drop(key string, k known) {
	if k.most > instant(time.Now(), r.clock.now()) {
		r.known[key] = known{most: k.most}
		return
	}
	r.floor = max(r.floor, k.most)
	delete(r.known, key)
}
