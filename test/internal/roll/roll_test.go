package roll

import "testing"

func TestTwoWhoWorkAreSeen(t *testing.T) {
	var a, b uint64
	j := &Judge{tb: t, moved: make(chan struct{}, 1)}
	j.Add(&Instance{Name: "a", Stint: func() uint64 { return a }})
	j.Add(&Instance{Name: "b", Ours: true, Stint: func() uint64 { return b }})
	for _, step := range []struct{ a, b uint64 }{{0, 0}, {1, 0}, {0, 0}, {0, 1}, {2, 0}} {
		a, b = step.a, step.b
		j.Look()
	}
	if j.fault != "" {
		t.Errorf("one at a time: %s", j.fault)
	}
	b = 1
	j.Look()
	if j.fault != "two work at one instant: a and b" {
		t.Errorf("%q", j.fault)
	}
}

func TestTwoOfTheOtherProgramAreItsOwnAffair(t *testing.T) {
	j := &Judge{tb: t, moved: make(chan struct{}, 1)}
	for _, name := range []string{"a", "b"} {
		j.Add(&Instance{Name: name, Stint: func() uint64 { return 1 }})
	}
	j.Look()
	if j.fault != "" {
		t.Error(j.fault)
	}
	j.Add(&Instance{Name: "c", Ours: true, Stint: func() uint64 { return 1 }})
	j.Look()
	if j.fault != "two work at one instant: b and c" {
		t.Errorf("%q", j.fault)
	}
}
