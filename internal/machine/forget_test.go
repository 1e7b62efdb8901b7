package machine

import "testing"

// The details that the explorer forgets of a world do not change what may
// follow: it reaches the same worlds as an explorer that forgets nothing,
// except for the forgotten details of each.
func TestForgottenDetailsDoNotLimitTheExplorer(t *testing.T) {
	if testing.Short() {
		t.Skip("it judges the explorer, and not the protocol")
	}
	for _, cfg := range []config{
		{name: "any fault", clocks: steady(3, 5), machines: machines(2, nil), kinds: allFaults, horizon: 6, faults: 1},
		{name: "requests, twice", clocks: steady(3, 5), machines: machines(2, nil), kinds: setOf(kStepDown, kTransfer, kLoseUpdate), horizon: 8, faults: 2},
		{name: "stale reads", clocks: steady(3, 5), machines: machines(2, nil), kinds: setOf(kStaleRead, kLoseReply, kCrash), horizon: 8, faults: 2},
		{
			name: "a store that forgets", clocks: fine(2), machines: fineMachines(2, cooling), storeMay: true,
			kinds: setOf(kRollback, kWipe, kGiveUpWrite), horizon: 8, faults: 2,
		},
		{name: "records that vanish", clocks: fine(2), machines: fineMachines(2, settling), kinds: setOf(kVanish, kReturn, kGiveUpWrite), horizon: 5, faults: 3},
		{
			name: "a store that is made again", clocks: fine(2), machines: fineMachines(2, ageing), late: true,
			kinds: setOf(kRemade, kGiveUpWrite, kCutOff), horizon: 12, faults: 2,
		},
	} {
		t.Run(cfg.name, func(t *testing.T) {
			t.Parallel()
			x := newSim(cfg)
			x.keeps = true
			all, want := x.visited(t)
			x.keeps = false
			fewer, got := x.visited(t)
			t.Logf("%d worlds, %d of them different", all, fewer)
			if fewer >= all {
				t.Error("nothing is forgotten")
			}
			for w := range want {
				if !got[w] {
					t.Fatalf("not reached: %+v", w)
				}
			}
			for w := range got {
				if !want[w] {
					t.Fatalf("not reached if nothing is forgotten: %+v", w)
				}
			}
		})
	}
}

// visited returns how many worlds x visits, and these without what it forgets.
func (x *sim) visited(t *testing.T) (n int, without map[world]bool) {
	t.Helper()
	seen, without := map[world]bool{x.root(): true}, map[world]bool{}
	for todo := []world{x.root()}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, n := range x.successors(&w) {
			if n.bad != "" {
				t.Fatal(n.bad)
			}
			if !seen[n.w] {
				seen[n.w] = true
				todo = append(todo, n.w)
			}
		}
		keeps := x.keeps
		x.keeps = false
		x.forget(&w)
		x.keeps = keeps
		without[w] = true
	}
	return len(seen), without
}
