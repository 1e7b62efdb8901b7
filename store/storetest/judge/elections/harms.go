package elections

import (
	"time"

	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
)

// A Harm befalls the servers of a party, or the ways to them.
type Harm struct {
	// Name is for the report.
	Name string
	// Happen does the harm. When it returns, all is well again.
	Happen func(p *Party)
	// Forgets is set if the servers lose what they acknowledged: the next
	// leader then leads in a later term than all before.
	Forgets bool
	// Again is set if the servers give revisions a second time, so that terms
	// of before and after are not compared.
	Again bool
}

// Lasting is a harm that begins, lasts until nobody leads, and ends.
func Lasting(name string, begin, end func()) Harm {
	return Harm{Name: name, Happen: func(p *Party) { p.lasts(begin, p.Nobody, end) }}
}

// Passing is a harm that begins, lasts until somebody leads in spite of it, and
// ends.
func Passing(name string, begin, end func()) Harm {
	return Harm{Name: name, Happen: func(p *Party) {
		p.lasts(begin, func() { p.Renewed(time.Now()) }, end)
	}}
}

// Spoiled are the harms of the ways of a party, whose candidates have one relay
// each, in the order in which they joined. A leader whose way is spoiled must
// have ended its term before another begins one; and what was held of it
// arrives when that one leads.
func Spoiled(ways []*relay.Relay) []Harm {
	all := func(do func(*relay.Relay)) func() {
		return func() {
			for _, w := range ways {
				do(w)
			}
		}
	}
	leaders := func(hold ...relay.Direction) func(*Party) {
		return func(p *Party) {
			at := p.leading()
			p.lasts(func() { ways[at].Hold(hold...) }, func() { p.another(at) }, ways[at].Resume)
		}
	}
	// A lease counts from when its renewal left, and not from the answer.
	late := func(p *Party) {
		at := p.leading()
		p.lasts(func() { ways[at].Delay(p.ttl*3/10, relay.ToClient) }, func() {
			since := time.Now()
			p.await("the leader renews by late answers, or leads no more", func() bool {
				st := p.members[at].Status()
				return !st.IsLeader || st.LastHeartbeat.After(since)
			})
			ways[at].Hold(relay.ToServer)
			p.another(at)
		}, ways[at].Resume)
	}
	return []Harm{
		{Name: "all connections are reset", Happen: func(*Party) { all((*relay.Relay).Reset)() }},
		Lasting("all are cut off until nobody leads", all((*relay.Relay).Cut), all((*relay.Relay).Resume)),
		{Name: "the leader's calls are held until another leads", Happen: leaders(relay.ToServer)},
		{Name: "the answers to the leader are held until another leads", Happen: leaders(relay.ToClient)},
		{Name: "the answers to the leader come late, and then its calls are held until another leads", Happen: late},
	}
}
