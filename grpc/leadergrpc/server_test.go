package leadergrpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
)

func TestOnlyTheLeaderServes(t *testing.T) {
	st := newStore()
	a := leads(t, stand(t, st, config("a"), nil))
	b := stand(t, st, config("b"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for info := range b.Observe(ctx) {
		if info.ID == "a" {
			break
		}
	}
	direct := map[*instance]*grpc.ClientConn{a: dial(t, a.address), b: dial(t, b.address)}
	for _, method := range []string{who, listen} {
		if got, err := ask(t, direct[a], method); err != nil || got != "a" {
			t.Errorf("%s: %q, %v", method, got, err)
		}
		_, err := ask(t, direct[b], method)
		r, ok := leadergrpc.RefusalOf(err)
		if want := (leadergrpc.Refusal{Group: "reports", ID: "a", Address: a.address, Term: a.Term().Number}); !ok || r != want {
			t.Errorf("%s: %v, %+v; want %+v", method, err, r, want)
		}
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), `"a" leads group "reports"`) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if n := b.runs.Load(); n != 0 {
		t.Errorf("%d handlers ran on a follower", n)
	}
	if got, err := ask(t, direct[b], local); err != nil || got != "b" {
		t.Errorf("a method that every instance serves: %q, %v", got, err)
	}
	if err := a.StopWithContext(t.Context(), leader.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, ok := leadergrpc.RefusalOf(errorOf(ask(t, direct[a], who))); !ok || r.Group != "reports" {
		t.Errorf("after its stop: %+v, %v", r, ok)
	}
}

// The text of a record goes into a header.
func TestARefusalRepeatsNoLongAddress(t *testing.T) {
	st := newStore()
	st.Put("reports", []byte(`{"id":"x","token":"t","ttl":60000,"address":"`+strings.Repeat("x", 2000)+`"}`))
	b := stand(t, st, config("b"), nil)
	follows(t, b, &instance{id: "x"})
	r, ok := leadergrpc.RefusalOf(errorOf(ask(t, dial(t, b.address), who)))
	if !ok || r.ID != "x" || r.Address != "" {
		t.Errorf("%+v, %v", r, ok)
	}
}

func errorOf(_ string, err error) error { return err }

func TestOtherErrorsDoNotCountAsRefusals(t *testing.T) {
	for _, err := range []error{
		nil, context.Canceled, errors.New("x"), status.Error(codes.FailedPrecondition, "of the service"),
		leadergrpc.RefuseTerm(leadergrpc.ErrNoTerm),
	} {
		if r, ok := leadergrpc.RefusalOf(err); ok {
			t.Errorf("%v: %+v", err, r)
		}
	}
}

// A handler's context carries the term and ends with it. The handler's own
// error for this differs from a refusal: it has run.
func TestTheContextOfAHandlerEndsWithTheTerm(t *testing.T) {
	type seen struct {
		term  leader.Term
		cause error
	}
	entered, left := make(chan struct{}), make(chan seen, 1)
	serve := func(ctx context.Context) (string, error) {
		entered <- struct{}{}
		<-ctx.Done()
		term, _ := leader.TermFromContext(ctx)
		left <- seen{term, context.Cause(ctx)}
		return "", ctx.Err()
	}
	for _, method := range []string{who, listen} {
		a := leads(t, stand(t, newStore(), config("a"), serve))
		term := a.Term()
		conn, answer := dial(t, a.address), make(chan error, 1)
		go func() { answer <- errorOf(ask(t, conn, method)) }()
		<-entered
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if s := <-left; s.term != term || !errors.Is(s.cause, leader.ErrNotLeader) {
			t.Errorf("%s: %v, %v", method, s.term, s.cause)
		}
		err := <-answer
		if _, refused := leadergrpc.RefusalOf(err); refused || status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "term ended") {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestErrorsOfHandlersArePassedOn(t *testing.T) {
	want := status.Error(codes.NotFound, "no such report")
	a := leads(t, stand(t, newStore(), config("a"), func(context.Context) (string, error) { return "", want }))
	conn := dial(t, a.address)
	for _, method := range []string{who, listen} {
		if _, err := ask(t, conn, method); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "no such report") {
			t.Errorf("%s: %v", method, err)
		}
	}
}
