package natsstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAnAnswerGoesToItsRequestOnce(t *testing.T) {
	var sent []*nats.Msg
	r := newRequests("_INBOX.x", func(m *nats.Msg) error {
		sent = append(sent, m)
		return nil
	})
	now := time.Now()
	answers := map[string][]string{}
	ask := func(name string) {
		if err := r.ask(now.Add(time.Second), "subject", []byte(name), func(m *nats.Msg) {
			text := "none"
			if m != nil {
				text = string(m.Data)
			}
			answers[name] = append(answers[name], text)
		}); err != nil {
			t.Fatal(err)
		}
	}
	ask("a")
	ask("b")
	for range 2 {
		r.answer(&nats.Msg{Subject: sent[1].Reply, Data: []byte("to b")})
	}
	r.answer(&nats.Msg{Subject: "_INBOX.x.nobody"})
	r.expire(now)
	if len(answers["a"]) != 0 || len(answers["b"]) != 1 || answers["b"][0] != "to b" {
		t.Fatalf("answers %v", answers)
	}
	var due []time.Time
	r.deadlines(func(at time.Time) { due = append(due, at) })
	if len(due) != 1 || !due[0].Equal(now.Add(time.Second)) {
		t.Errorf("deadlines %v", due)
	}
	r.expire(now.Add(2 * time.Second))
	r.answer(&nats.Msg{Subject: sent[0].Reply, Data: []byte("late")})
	if len(answers["a"]) != 1 || answers["a"][0] != "none" {
		t.Errorf("a request without an answer in time heard %v", answers["a"])
	}
}

func TestALateAnswerGoesToARequestThatTakesOne(t *testing.T) {
	var sent []*nats.Msg
	r := newRequests("_INBOX.x", func(m *nats.Msg) error {
		sent = append(sent, m)
		return nil
	})
	now := time.Now()
	var heard []bool
	ask := func() {
		if err := r.askLate(now.Add(time.Second), "subject", nil, func(m *nats.Msg) { heard = append(heard, m != nil) }); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	now = now.Add(2 * time.Second)
	r.expire(now)
	r.expire(now.Add(time.Second))
	if !slices.Equal(heard, []bool{false}) {
		t.Fatalf("after its deadline it heard %v", heard)
	}
	for range 2 {
		r.answer(&nats.Msg{Subject: sent[0].Reply})
	}
	if !slices.Equal(heard, []bool{false, true}) {
		t.Errorf("after a late answer it heard %v", heard)
	}
	ask()
	now = now.Add(2 * time.Second)
	r.expire(now)
	r.expire(now.Add(time.Minute))
	r.answer(&nats.Msg{Subject: sent[1].Reply})
	if len(heard) != 3 {
		t.Errorf("after an answer that is of no use any more it heard %v", heard)
	}
	r.deadlines(func(time.Time) { t.Error("something is still awaited") })
}

func TestARequestThatWasNotSentWaitsLikeAnother(t *testing.T) {
	broken := errors.New("broken")
	r := newRequests("_INBOX.x", func(*nats.Msg) error { return broken })
	now := time.Now()
	ended := 0
	if err := r.ask(now.Add(time.Second), "subject", nil, func(*nats.Msg) { ended++ }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	r.expire(now)
	if ended != 0 {
		t.Error("it ended at once")
	}
	r.expire(now.Add(time.Minute))
	if ended != 1 {
		t.Error("it did not end")
	}
	_ = r.ask(now.Add(time.Second), "subject", nil, func(*nats.Msg) { ended++ })
	r.forget()
	r.expire(now.Add(time.Minute))
	if ended != 1 {
		t.Error("a forgotten request ended")
	}
}
