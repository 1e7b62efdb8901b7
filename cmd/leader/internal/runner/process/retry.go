//go:build unix

package process

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// A process is a process that was found below this one. Its number and its
// start, in ticks since the boot, identify it. The number alone may be given to
// another process when it is free.
type process struct {
	pid, parent, group int
	start, comm        string
	dead               bool // only its entry is left
}

func (p process) key() string { return fmt.Sprint(p.pid, " ", p.start) }

// A Survivor is a process that guard and candidate have no right to signal.
type Survivor struct {
	PID   int    `json:"pid"` // or the negative number of a group, of which no more is known
	UID   int    `json:"uid"` // the real one
	Comm  string `json:"comm,omitempty"`
	Start string `json:"start,omitempty"` // distinguishes it from others with its number
}

func (s Survivor) key() string { return fmt.Sprint(s.PID, " ", s.Start) }

// A Round is what one round of signals met.
type Round struct {
	Found  []process  // all, the denied ones among them
	Denied []Survivor // those that this process may not signal
}

// KillInterval is the backoff after a round of SIGKILL that ended somebody, for
// those who fork meanwhile. It doubles up to maxBackoff: what has survived one
// round survives most others.
const (
	KillInterval = 10 * time.Millisecond
	maxBackoff   = time.Second
)

// MaxNamed bounds how many survivors are named: one that forks for ever is not
// to fill a log.
const MaxNamed = 16

// A Retry decides when to kill again the processes that have not ended. A
// process that cannot be ended may live for days, and a round each 10 ms would
// cost up to a quarter of a core for as long.
type Retry struct {
	Due     int64               // when the next round is, on the shared clock
	Backoff time.Duration       // from the last round to that
	last    map[string]struct{} // who was found by the last round
}

// Ready reports whether a round is due.
func (r *Retry) Ready(now int64) bool { return now >= r.Due }

// Took records a round of SIGKILL, and sets the next one: soon, if a new
// process appeared that it can end, and later and later if not. A new process
// means that something forks, and only quick rounds outrun that.
func (r *Retry) Took(now int64, met Round) {
	denied := make(map[string]struct{}, len(met.Denied))
	for _, s := range met.Denied {
		denied[s.key()] = struct{}{}
	}
	fresh, found := false, make(map[string]struct{}, len(met.Found))
	for _, p := range met.Found {
		found[p.key()] = struct{}{}
		_, before := r.last[p.key()]
		_, no := denied[p.key()]
		fresh = fresh || !before && !no
	}
	r.Backoff = min(2*r.Backoff, maxBackoff)
	if fresh || r.Backoff == 0 {
		r.Backoff = KillInterval
	}
	r.last, r.Due = found, now+int64(r.Backoff)
}

// A Named keeps who has been named to the user.
type Named map[string]struct{}

// News returns those survivors that were not named before. Rounds meet the same
// ones for as long as they live, and the user is informed once.
func (n *Named) News(all []Survivor) (news []Survivor) {
	if *n == nil {
		*n = make(Named)
	}
	for _, s := range all {
		if _, ok := (*n)[s.key()]; !ok && len(*n) < MaxNamed {
			(*n)[s.key()] = struct{}{}
			news = append(news, s)
		}
	}
	return news
}

// String names a process as its user would look for it.
func (s Survivor) String() string {
	if s.PID < 0 {
		return fmt.Sprintf("process group %d", -s.PID)
	}
	return fmt.Sprintf("process %d (%q, uid %d)", s.PID, s.Comm, s.UID)
}

// listOf names processes in a sentence.
func listOf(all []Survivor) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

// AheadWords describe processes that are out of reach while the term lasts.
func AheadWords(news []Survivor, uid int) string {
	return fmt.Sprintf("%s could not be ended when the term is over: uid %d may not signal it (see leader run --help)",
		listOf(news), uid)
}

// DeniedWords describe out-of-reach processes when they are to end.
func DeniedWords(news []Survivor, uid int) string {
	return fmt.Sprintf("%s cannot be ended: uid %d may not signal it. It has to end by itself, or by its user or root; "+
		"the lease is not released before", listOf(news), uid)
}

// DeafWords describe processes that a signal does not reach.
func DeafWords(sig syscall.Signal, all []Survivor, uid int) string {
	return fmt.Sprintf("signal %d (%v) does not reach %s: uid %d may not signal it", int(sig), sig, listOf(all), uid)
}

// LapsedWords describe the consequences if the lease runs out first.
func LapsedWords(all []Survivor) string {
	return fmt.Sprintf("THE LEASE HAS RUN OUT while %s lives and cannot be ended: another host may run the program beside it. "+
		"Only the term's number, checked by what it writes to, makes that harmless", listOf(all[:min(len(all), MaxNamed)]))
}
