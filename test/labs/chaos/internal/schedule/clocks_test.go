package schedule

import "testing"

func TestMostRoundsHaveASlowAndAFastClock(t *testing.T) {
	const rounds = 200
	both := 0
	for seed := range uint64(rounds) {
		p := Draw(seed, 1, nil, nil)
		if len(p.Rates) != p.Candidates {
			t.Fatalf("seed %d: %d candidates, clock rates %v", seed, p.Candidates, p.Rates)
		}
		if p.Extremes() {
			both++
		}
	}
	if both < rounds*3/4 || both == rounds {
		t.Errorf("both extremes in %d of %d rounds", both, rounds)
	}
}
