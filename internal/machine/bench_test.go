package machine

import "testing"

// A scene is a step that candidates make all day.
type scene struct {
	name string
	s    State
	ev   Event
	now  Instant
}

func scenes() []scene {
	leader, waiting := elected(unitMachine("a")), elected(unitMachine("a"))
	waiting.step(Event{Kind: Validate})
	follower := &play{m: unitMachine("a")}
	follower.step(Event{Kind: Start})
	record := Seen{Kind: Held, Rev: 3, Rec: Record{ID: "b", Token: "b1", TTL: 20}}
	follower.step(Event{Kind: Observed, Seen: record})
	record.Rev, record.Rec.Renewal = 4, 1
	return []scene{
		{"a tick with nothing due", leader.s, Event{Kind: Tick}, leader.now},
		{"a renewal is sent", leader.s, Event{Kind: Validate, Nonce: 7}, leader.now},
		{"a renewal is answered", waiting.s, Event{Kind: Written, Op: waiting.s.Write.Op, Rev: 6}, waiting.now},
		{"its own record is observed", leader.s, Event{Kind: Observed, Seen: leader.s.View}, leader.now},
		{"a follower observes a renewal", follower.s, Event{Kind: Observed, Seen: record}, follower.now},
	}
}

// BenchmarkStep is what a step costs.
func BenchmarkStep(b *testing.B) {
	m := unitMachine("a")
	for _, c := range scenes() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Step(c.s, c.ev, c.now)
			}
		})
	}
}

// BenchmarkStepOnANewStack measures a step on a goroutine whose stack is small.
// Elections mostly wait, so their goroutines have small stacks.
func BenchmarkStepOnANewStack(b *testing.B) {
	m, c := unitMachine("a"), scenes()[2]
	done := make(chan struct{})
	b.ReportAllocs()
	for b.Loop() {
		go func() {
			m.Step(c.s, c.ev, c.now)
			done <- struct{}{}
		}()
		<-done
	}
}

// BenchmarkApply is the same in place.
func BenchmarkApply(b *testing.B) {
	m, out := unitMachine("a"), make([]Action, 0, 4)
	for _, c := range scenes() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := c.s
				out = m.Apply(&s, &c.ev, c.now, out[:0])
			}
		})
	}
}

// BenchmarkApplyOnANewStack is BenchmarkStepOnANewStack in place.
func BenchmarkApplyOnANewStack(b *testing.B) {
	m, c := unitMachine("a"), scenes()[2]
	s, out := new(State), make([]Action, 0, 4)
	done := make(chan struct{})
	b.ReportAllocs()
	for b.Loop() {
		go func() {
			*s = c.s
			m.Apply(s, &c.ev, c.now, out)
			done <- struct{}{}
		}()
		<-done
	}
}
