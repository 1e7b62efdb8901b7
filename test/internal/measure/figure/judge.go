package figure

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

// A Verdict is a target and whether it was met.
type Verdict struct {
	Figure string
	Target string
	Got    string
	Met    bool
	// Guarantee: missing it is a defect, and not a matter of the machine.
	Guarantee bool
}

// Word is the verdict in one word.
func (v Verdict) Word() string {
	switch {
	case v.Met:
		return "met"
	case v.Guarantee:
		return "BROKEN"
	default:
		return "missed"
	}
}

// The targets. Those of time are relative to what was measured in the same run.
const (
	swapsInHandover   = 4
	crashTolerance    = 0.02 // of the TTL, beyond the drift
	messagesPerSecond = 13
	messagesPlain     = 20 // of them without republishing, where the server keeps a consumer for each key
	goroutinesEach    = 1
	heapEach          = 8 << 10
	timesCPU          = 1.2
	moreAmongTwenty   = 5 * time.Millisecond
	claimsAtVacancy   = 60
	claimsAtCrash     = 30
	amongMany         = 25 * time.Millisecond
	large             = 10_000

	// Over other stores.
	swapsToHear   = 3.5                   // in a handover, where changes are reported
	swapsToLook   = 3                     // in a handover where they are found by looking, in addition to half of a heartbeat
	crashLateness = 20 * time.Millisecond // beyond the lease and the drift
)

// Judge compares what was measured with the targets. After a quick run it
// judges safety alone.
func (r *Report) Judge() []Verdict {
	verdicts := r.judgeFaults()
	if r.Quick {
		return verdicts
	}
	for _, judge := range []func() []Verdict{r.judgeHandover, r.judgeCrash, r.judgeTraffic, r.judgeCrowds, r.judgePlainCrowd, r.judgeHerds, r.judgeEtcd, r.judgeStores} {
		verdicts = append(verdicts, judge()...)
	}
	return verdicts
}

func (r *Report) judgeFaults() (verdicts []Verdict) {
	for _, f := range r.Ours().Faults {
		worst := f.Worst()
		verdicts = append(verdicts, Verdict{
			Figure: "two leaders: " + f.Name, Target: "0 ms in every trial",
			Got: fmt.Sprintf("%s in %d trials", Duration(worst.Both()), len(f.Trials)),
			Met: worst.Both() == 0 && !worst.Open, Guarantee: true,
		})
	}
	return verdicts
}

func (r *Report) judgeHandover() (verdicts []Verdict) {
	ours := r.Ours()
	if len(ours.Handover) == 0 {
		return nil
	}
	got, swap := ours.Handover.Median(), ours.RoundTrip.Median()
	if etcd := r.Of("etcd"); etcd != nil {
		verdicts = append(verdicts, Verdict{
			Figure: "graceful handover", Target: "below etcd's, " + Duration(etcd.Handover.Median()), Got: Duration(got),
			Met: got < etcd.Handover.Median(),
		})
	}
	ratio := float64(got) / float64(swap)
	return append(verdicts, Verdict{
		Figure: "graceful handover", Target: fmt.Sprintf("≤ %d × the store's compare-and-swap, %s", swapsInHandover, Duration(swap)),
		Got: fmt.Sprintf("%.1f ×", ratio), Met: ratio <= swapsInHandover,
	})
}

func (r *Report) judgeCrash() (verdicts []Verdict) {
	const most = 1 + leader.DefaultClockDrift + crashTolerance
	for _, c := range r.Ours().Crashes {
		ratio := float64(c.Samples.Median()) / float64(c.TTL)
		verdicts = append(verdicts, Verdict{
			Figure: fmt.Sprintf("crash failover, TTL %v", c.TTL), Target: fmt.Sprintf("≤ %.2f × TTL", most),
			Got: fmt.Sprintf("%.3f × TTL", ratio), Met: ratio <= most,
		})
	}
	return verdicts
}

func (r *Report) judgeTraffic() []Verdict {
	t := r.Ours().Traffic
	if t.Followers == 0 {
		return nil
	}
	return []Verdict{{
		Figure: fmt.Sprintf("messages in a second, 1 leader and %d followers", t.Followers), Target: fmt.Sprintf("≤ %d", messagesPerSecond),
		Got: fmt.Sprintf("%.3f", t.Messages()), Met: t.Messages() <= messagesPerSecond,
	}, r.judgePlainTraffic()}
}

func (r *Report) judgePlainTraffic() Verdict {
	t := r.Ours().Plain.Traffic
	return Verdict{
		Figure: "the same in a bucket that does not republish", Target: fmt.Sprintf("≤ %d", messagesPlain),
		Got: fmt.Sprintf("%.1f", t.Messages()), Met: t.Followers > 0 && t.Messages() <= messagesPlain,
	}
}

func (r *Report) judgePlainCrowd() []Verdict {
	c := r.Ours().Plain.Crowd
	if c.Elections == 0 {
		return nil
	}
	return []Verdict{{
		Figure: fmt.Sprintf("%d elections in a bucket that does not republish", c.Elections), Target: "all of them led, and followed",
		Got: fmt.Sprint(c.Settled()), Met: c.Settled() == c.Elections,
	}}
}

func (r *Report) judgeCrowds() (verdicts []Verdict) {
	for i, c := range r.Ours().Crowds {
		if c.Elections == large {
			verdicts = append(verdicts, judgeLarge(c)...)
		}
		peer := r.Of("client-go")
		if c.Elections == large || peer == nil || i >= len(peer.Crowds) {
			continue
		}
		theirs := peer.Crowds[i]
		if theirs.Settled() != theirs.Elections {
			continue // it did less work: Missing reports it
		}
		verdicts = append(verdicts,
			judgeCPU(c, "led", c.Leading.CPU, theirs.Leading.CPU), judgeCPU(c, "followed", c.Following.CPU, theirs.Following.CPU))
	}
	return verdicts
}

// judgeCPU finds the target missed unless all elections of this library were
// led, and followed: the others cost little.
func judgeCPU(c Crowd, what string, ours, theirs float64) Verdict {
	got := fmt.Sprintf("%.1f %%", 100*ours)
	if c.Settled() != c.Elections {
		got += fmt.Sprintf(", with %d of them settled", c.Settled())
	}
	return Verdict{
		Figure: fmt.Sprintf("CPU of %d elections, %s", c.Elections, what),
		Target: fmt.Sprintf("≤ %.1f × client-go's, %.1f %% of a core, at as many renewals", timesCPU, 100*theirs),
		Got:    got, Met: c.Settled() == c.Elections && ours <= timesCPU*theirs,
	}
}

func judgeLarge(c Crowd) []Verdict {
	goroutines, heap := max(c.Leading.Goroutines, c.Following.Goroutines), max(c.Leading.Heap, c.Following.Heap)
	what := fmt.Sprintf("%d elections on one connection", c.Elections)
	return []Verdict{
		{Figure: what, Target: "all of them led, and followed", Got: fmt.Sprint(c.Settled()), Met: c.Settled() == c.Elections},
		{
			Figure: what, Target: fmt.Sprintf("≤ %d goroutine each", goroutinesEach), Got: fmt.Sprintf("%.2f", goroutines),
			// Goroutines that the connection has once belong to no election.
			Met: goroutines <= goroutinesEach+0.01,
		},
		{Figure: what, Target: "≤ 8 KiB of heap each", Got: fmt.Sprintf("%.1f KiB", heap/1024), Met: heap <= heapEach},
	}
}

// judgeHerds judges elections with more than two candidates, by the size and by
// what the least of them takes.
func (r *Report) judgeHerds() (verdicts []Verdict) {
	var few time.Duration
	for i, h := range r.Ours().Herds {
		took, died := h.Left.Took.Median(), h.Died.MedianClaims()
		verdict := func(what, target, got string, met bool) {
			verdicts = append(verdicts, Verdict{Figure: fmt.Sprintf("%s among %d candidates", what, h.Candidates), Target: target, Got: got, Met: met})
		}
		switch h.Candidates {
		case 3:
			few = took
			if swap := r.Ours().RoundTrip.Median(); swap > 0 {
				verdict("a handover", fmt.Sprintf("≤ %d × the store's compare-and-swap, %s", swapsInHandover, Duration(swap)),
					fmt.Sprintf("%.1f ×", float64(took)/float64(swap)), took <= swapsInHandover*swap)
			}
			if peer := r.Of("etcd"); peer != nil && i < len(peer.Herds) {
				theirs := peer.Herds[i].Left.Took.Median()
				verdict("a handover", "below etcd's, "+Duration(theirs), Duration(took), took < theirs)
			}
		case 20:
			verdict("a handover", fmt.Sprintf("≤ %s more than among 3", Duration(moreAmongTwenty)), Duration(took-few), took-few <= moreAmongTwenty)
		case 200:
			claims := h.Left.MedianClaims()
			verdict("a handover", fmt.Sprintf("≤ %d claims", claimsAtVacancy), fmt.Sprint(claims), claims <= claimsAtVacancy)
			verdict("a handover", "≤ "+Duration(amongMany), Duration(took), took <= amongMany)
			verdict("a crash", fmt.Sprintf("≤ %d claims", claimsAtCrash), fmt.Sprint(died), died <= claimsAtCrash)
		}
	}
	return verdicts
}

// judgeEtcd judges handovers among three over etcd by the handovers of etcd's
// own election, which notifies the next in line.
func (r *Report) judgeEtcd() []Verdict {
	peer := r.Of("etcd")
	if r.Stores == nil || peer == nil {
		return nil
	}
	for i := range r.Stores.Stores {
		s := &r.Stores.Stores[i]
		ours := s.Among(3)
		if s.Name != "etcd" || ours == nil {
			continue
		}
		for _, theirs := range peer.Herds {
			if theirs.Candidates == 3 {
				took, least := ours.Took.Median(), theirs.Left.Took.Median()
				return []Verdict{{
					Figure: "a handover among 3 candidates over etcd", Target: fmt.Sprintf("≤ 2 × etcd's own, %s", Duration(least)),
					Got: Duration(took), Met: took <= 2*least,
				}}
			}
		}
	}
	return nil
}

// judgeStores judges what was measured over other stores: of each target it
// returns the verdict on the store that is farthest beyond it, or next to it.
func (r *Report) judgeStores() (verdicts []Verdict) {
	if r.Stores == nil {
		return nil
	}
	worst := make(map[string]float64) // by figure: what was measured, in parts of what is allowed
	at := make(map[string]int)
	for i := range r.Stores.Stores {
		s := &r.Stores.Stores[i]
		if s.Absent != "" {
			continue
		}
		for _, v := range judgeStore(s) {
			n, known := at[v.Figure]
			if !known {
				n = len(verdicts)
				at[v.Figure] = n
				verdicts = append(verdicts, v.Verdict)
			}
			if v.part >= worst[v.Figure] {
				worst[v.Figure], verdicts[n] = v.part, v.Verdict
			}
		}
	}
	return verdicts
}

// A measuredVerdict contains the part of the target's limit that was used.
type measuredVerdict struct {
	Verdict
	part float64
}

func judgeStore(s *storefigures.Store) []measuredVerdict {
	swap, over, crash := s.Swap.Median(), s.Handover.Median(), s.Crash.Median()
	verdict := func(figure, target, got string, part float64) measuredVerdict {
		if part <= 0 { // no time at all, and no trip: nothing was measured
			got, part = "not measured", math.Inf(1)
		}
		return measuredVerdict{Verdict{Figure: figure, Target: target, Got: got + " (" + s.Name + ")", Met: part <= 1}, part}
	}
	handover := verdict("graceful handover over each store that reports changes", fmt.Sprintf("≤ %.1f × its compare-and-swap", swapsToHear),
		fmt.Sprintf("%.1f ×", s.PerSwap()), s.PerSwap()/swapsToHear)
	found := time.Duration(0) // how late a vacancy is found
	if s.Polled() {
		handover = verdict("graceful handover over each store that is looked at", fmt.Sprintf("≤ half of the heartbeat, %v, and %d × its compare-and-swap",
			s.Heartbeat/2, swapsToLook), Duration(over), float64(over)/float64(s.Heartbeat/2+swapsToLook*swap))
		found = s.TTL / 10
	}
	latest := s.TTL + time.Duration(float64(s.TTL)*leader.DefaultClockDrift) + crashLateness
	return []measuredVerdict{
		handover,
		verdict("crash failover over each store, TTL "+s.TTL.String(), fmt.Sprintf("≤ %s, and half of the heartbeat where it is looked at", Duration(latest)),
			Duration(crash), float64(crash)/float64(latest+found)),
		verdict("a renewal over each store", "1 round trip", fmt.Sprint(s.Trips), float64(s.Trips)),
	}
}

// Broken returns an error if a guarantee was.
func Broken(verdicts []Verdict) error {
	var errs []error
	for _, v := range verdicts {
		if v.Guarantee && !v.Met {
			errs = append(errs, fmt.Errorf("a guarantee is broken: %s: %s", v.Figure, v.Got))
		}
	}
	return errors.Join(errs...)
}

// Missing names what a whole run should have measured and did not.
func (r *Report) Missing() error {
	var errs []error
	for _, res := range r.Results {
		for what, there := range map[string]bool{
			"handover": len(res.Handover) > 0, "round trip": len(res.RoundTrip) > 0, "crash": res.crashed(),
			"faults": len(res.Faults) > 0, "traffic": res.Traffic.Messages() > 0 && res.Traffic.Bytes > 0,
			"answer": !res.Answers || res.Answer > 0, "herd": res.herded(), "crowd": res.crowded(),
		} {
			if !there {
				errs = append(errs, fmt.Errorf("%s: %s was not measured", res.Library, what))
			}
		}
	}
	return errors.Join(errs...)
}

// MissingOfStores names the missing measurements of the stores whose servers
// are here. One store is on each machine, since the test brings it.
func (r *Report) MissingOfStores() error {
	if r.Stores == nil {
		return errors.New("the stores were not measured")
	}
	var errs []error
	present := 0
	for _, s := range r.Stores.Stores {
		if s.Absent != "" {
			continue
		}
		present++
		if len(s.Swap) == 0 || len(s.Handover) == 0 || len(s.Crash) == 0 || s.Trips == 0 {
			errs = append(errs, fmt.Errorf("the store %s was not measured in full: %d compare-and-swaps, %d handovers, %d crashes, %d round trips",
				s.Name, len(s.Swap), len(s.Handover), len(s.Crash), s.Trips))
		}
	}
	if present == 0 {
		errs = append(errs, errors.New("no store was measured"))
	}
	return errors.Join(errs...)
}

// crashed reports whether each TTL that is permitted was measured, and one was.
func (r *Result) crashed() bool {
	some := false
	for _, c := range r.Crashes {
		if c.Permitted && len(c.Samples) == 0 {
			return false
		}
		some = some || c.Permitted
	}
	return some
}

// herded reports whether each herd was measured, and one was.
func (r *Result) herded() bool {
	for _, h := range r.Herds {
		if len(h.Left.Took) == 0 || len(h.Died.Took) == 0 {
			return false
		}
	}
	return len(r.Herds) > 0
}

// crowded reports whether each crowd was measured, with all of its elections
// led and followed at the end, and one was.
func (r *Result) crowded() bool {
	for _, c := range r.Crowds {
		if c.Settled() != c.Elections || c.CPU() <= 0 || c.Leading.Heap <= 0 || c.Following.Heap <= 0 {
			return false
		}
	}
	return len(r.Crowds) > 0
}

// Duration writes a duration in milliseconds, with as many digits as mean
// something.
func Duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "0 ms"
	case d < 10*time.Microsecond:
		return "< 0.01 ms"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}
