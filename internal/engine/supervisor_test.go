package engine

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A patient supervisor has every claim wait.
type patient struct{ settled machine.State }

func (p *patient) Admit(next *machine.State) (time.Duration, bool) {
	if next.Phase == machine.Claiming {
		return time.Second, true
	}
	return 0, true
}
func (p *patient) Settle(s *machine.State)       { p.settled = *s }
func (p *patient) Gives(int) bool                { return true }
func (p *patient) Asks(uint64) bool              { return true }
func (p *patient) Stepped(View, leadership.Info) {}
func (p *patient) Ended(bool)                    {}
func (p *patient) Warns(string) bool             { return true }

// The vacancy of a successor ends a stand-back at once. It once also ended the
// wait that the supervisor asks for: an instance that had led a role before
// took the role all the same, past its fair share.
func TestAClaimWaitsAlsoWhereTheEventEndsAStandBack(t *testing.T) {
	p := &patient{}
	c := New(memstore.New(), testConfig(func(c *Config) { c.Supervisor = p }))
	l := &c.loop
	l.rules = c.cfg.Protocol(false)
	l.state = machine.State{
		Phase: machine.Watching,
		Grant: machine.Grant{Token: "of a former term of ours"},
		View:  machine.Seen{Kind: machine.Held, Rev: 5, Rec: machine.Record{ID: "b", Token: "b's", TTL: 3 * time.Second}},
	}
	l.next(&machine.Event{Kind: machine.Observed, Token: "fresh", Seen: machine.Seen{
		Kind: machine.Vacant, Rev: 6, Rec: machine.Record{Token: "b's", Reason: machine.ReasonResigned},
	}})
	s := &l.state
	if s.Phase != machine.Watching || s.StandBackUntil <= l.now() || p.settled.Phase != machine.Watching {
		t.Errorf("it is %v, and stays back until %v", s.Phase, s.StandBackUntil)
	}
}
