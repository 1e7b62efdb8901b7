package schedule

import "testing"

var (
	hides = Kind{Name: "hides", Suits: Everywhere, Hides: true}
	harms = Kind{Name: "harms", Suits: Everywhere}
)

// The protocol's demands on a group (docs/reference/protocol.md, A4) hold in
// each round, and anything that it does not demand is missing in some.
func TestCandidatesDifferWhereTheyMay(t *testing.T) {
	const rounds = 300
	var unequal, ranked, hidden, expiring, withMarkers, bySelf, fast int
	for seed := range uint64(rounds) {
		p := Draw(seed, 0, []Kind{hides, harms}, nil)
		if len(p.Settings) != p.Candidates {
			t.Fatalf("seed %d: %d candidates, %d settings", seed, p.Candidates, len(p.Settings))
		}
		drawn := p.Faults(len(p.Episodes))
		for _, s := range p.Settings {
			if s.TTL > p.TTL || s.TTL < p.TTL/2-1e6 || s.Timeout > s.TTL || s.Heartbeat > s.TTL/3 {
				t.Errorf("seed %d: %+v in a round of %v", seed, s, p.TTL)
			}
			if s.Policy != p.Settings[0].Policy {
				t.Errorf("seed %d: candidates disagree on the policy", seed)
			}
			if s.TTL != p.TTL && (!p.Unequal || p.Shape.CoolsDown() || drawn[hides.Name] > 0) {
				t.Errorf("seed %d: leases of %v and %v, %s, faults %v", seed, s.TTL, p.TTL, p.Shape.Name, drawn)
			}
		}
		if p.Unequal {
			unequal++
		}
		if e := p.Expiry; p.Expires() {
			if p.Unequal || e.MaxAge < p.TTL || !p.CoolsDown() || p.Shape.Memory && Replicated(p.Shape) {
				t.Errorf("seed %d: %v, a lease of %v, of different lengths: %v", seed, e, p.TTL, p.Unequal)
			}
			expiring++
			if e.Markers {
				withMarkers++
			}
			if !p.Shape.CoolsDown() {
				bySelf++
			}
		}
		if p.ServerRate != 0 {
			if !p.Expires() || p.Shape.CoolsDown() || p.OnOneClock().ServerRate != 0 {
				t.Errorf("seed %d: servers' clocks at %d, %s, %v", seed, p.ServerRate, p.Shape.Name, p.Expiry)
			}
			fast++
		}
		if p.Ranked() {
			ranked++
		}
		if drawn[hides.Name] > 0 {
			hidden++
		}
		if q := Draw(seed, 0, []Kind{hides, harms}, []string{hides.Name}); q.Unequal {
			t.Errorf("seed %d: leases differ though records are to be hidden", seed)
		}
	}
	for what, n := range map[string]int{
		"leases differ": unequal, "some are preferred": ranked, "records are hidden": hidden, "records expire": expiring, "records expire with a marker": withMarkers,
	} {
		if n < rounds/10 || n > rounds*9/10 {
			t.Errorf("%s in %d of %d rounds", what, n, rounds)
		}
	}
	// Two of six shapes, a quarter of whose rounds have such a bucket, and half of
	// those such servers.
	if bySelf < rounds/24 || fast < rounds/48 {
		t.Errorf("only an expiry has leaders cool down in %d of %d rounds, servers are fast in %d", bySelf, rounds, fast)
	}
}
