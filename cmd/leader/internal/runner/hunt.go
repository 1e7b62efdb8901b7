//go:build unix

package runner

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// A process is one that was found below this one. Its number and its start, in
// ticks since the boot, tell it from all others.
type process struct {
	pid, parent, group int
	start, comm        string
	dead               bool // only its entry is left
}

func (p process) key() string { return fmt.Sprint(p.pid, " ", p.start) }

func (s survivor) key() string { return fmt.Sprint(s.PID, " ", s.Start) }

// A survivor is a process that guard and candidate have no right to signal.
type survivor struct {
	PID   int    `json:"pid"` // or the negative number of a group, of which no more is known
	UID   int    `json:"uid"` // the real one
	Comm  string `json:"comm,omitempty"`
	Start string `json:"start,omitempty"` // tells it from others of its number
}

// A round is what one round of signals met.
type round struct {
	found  []process  // all, the denied ones among them
	denied []survivor // those that this process may not signal
}

// The rest between two rounds of SIGKILL: short for those who fork meanwhile,
// and then doubling, since what has survived one round survives most others.
const (
	killInterval = 10 * time.Millisecond
	maxKillRest  = time.Second
)

// maxNamed bounds how many survivors are named: one that forks for ever is not
// to fill a log.
const maxNamed = 16

// A hunt says when to kill again what has not ended.
type hunt struct {
	due  int64 // when the next round is, on the shared clock
	rest time.Duration
	last map[string]struct{} // who was found by the last round
}

// ready reports whether a round is due.
func (h *hunt) ready(now int64) bool { return now >= h.due }

// took takes in what a round of SIGKILL met, and sets the next one: soon, if
// somebody appeared whom it can end, and later and later if not.
func (h *hunt) took(now int64, r round) {
	denied := make(map[string]struct{}, len(r.denied))
	for _, s := range r.denied {
		denied[s.key()] = struct{}{}
	}
	fresh, found := false, make(map[string]struct{}, len(r.found))
	for _, p := range r.found {
		found[p.key()] = struct{}{}
		_, before := h.last[p.key()]
		_, no := denied[p.key()]
		fresh = fresh || !before && !no
	}
	h.rest = min(2*h.rest, maxKillRest)
	if fresh || h.rest == 0 {
		h.rest = killInterval
	}
	h.last, h.due = found, now+int64(h.rest)
}

// A naming keeps who has been named to the user.
type naming map[string]struct{}

// news returns those survivors that were not named before.
func (n *naming) news(all []survivor) (news []survivor) {
	if *n == nil {
		*n = make(naming)
	}
	for _, s := range all {
		if _, ok := (*n)[s.key()]; !ok && len(*n) < maxNamed {
			(*n)[s.key()] = struct{}{}
			news = append(news, s)
		}
	}
	return news
}

// String names a process as its user would look for it.
func (s survivor) String() string {
	if s.PID < 0 {
		return fmt.Sprintf("process group %d", -s.PID)
	}
	return fmt.Sprintf("process %d (%q, uid %d)", s.PID, s.Comm, s.UID)
}

func listOf(all []survivor) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

// aheadWords tell of processes that are out of reach while the term lasts.
func aheadWords(news []survivor, uid int) string {
	return fmt.Sprintf("%s could not be ended when the term is over: uid %d may not signal it (leader run --help says what to do)",
		listOf(news), uid)
}

// deniedWords tell of such processes when they are to end.
func deniedWords(news []survivor, uid int) string {
	return fmt.Sprintf("%s cannot be ended: uid %d may not signal it. It has to end by itself, or by its user or root; "+
		"the lease is not released before", listOf(news), uid)
}

// deafWords tell of processes that a signal does not reach.
func deafWords(sig syscall.Signal, all []survivor, uid int) string {
	return fmt.Sprintf("signal %d (%v) does not reach %s: uid %d may not signal it", int(sig), sig, listOf(all), uid)
}

// lapsedWords tell of what follows when the lease runs out first.
func lapsedWords(all []survivor) string {
	return fmt.Sprintf("THE LEASE HAS RUN OUT while %s lives and cannot be ended: another host may run the program beside it. "+
		"Only the term's number, checked by what it writes to, makes that harmless", listOf(all[:min(len(all), maxNamed)]))
}
