package lab

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A plan is what a seed decides about a round. What happens then is up to the
// machine.
type plan struct {
	seed       uint64
	shape      shape
	ttl        time.Duration
	heartbeat  time.Duration
	timeout    time.Duration // of each call to the store
	candidates int
	rates      []int    // of the candidates' clocks, in thousandths; empty: the machine's clock for all
	only       []string // the kinds of faults that were asked for; empty: all
	mutant     string   // the bug that the candidates have, if one was put into them
	episodes   []episode
}

// An episode is some faults at once. It is over when somebody leads again.
type episode struct {
	faults []fault
	calm   time.Duration // after it
}

// A fault is one that was drawn.
type fault struct {
	kind   kind
	at     time.Duration // from the begin of the episode
	length time.Duration
	leader bool   // it is for whoever leads then, if somebody does
	seat   int    // else for this candidate
	dice   uint64 // for what else the kind has to draw
}

// rng returns the fault's own source.
func (f fault) rng() *rand.Rand { return rand.New(rand.NewPCG(f.dice, 0)) }

// draw plans a round. The seed decides the shape too, so that a seed alone says
// what a round is. With 0 episodes there are as many as let each kind come up;
// only, if it is not empty, names the kinds. Faults come from two decks, of
// which one has those of candidates and the other those of servers and the
// store; each kind comes up before any comes up again.
func draw(seed uint64, episodes int, only []string) plan {
	s := shapes[seed%uint64(len(shapes))]
	rng := rand.New(rand.NewPCG(seed, 1))
	p := plan{
		seed: seed, shape: s, only: only, candidates: 3 + rng.IntN(2),
		ttl: time.Duration(8+rng.IntN(5)) * 100 * time.Millisecond,
	}
	p.heartbeat = p.ttl / 4
	p.timeout = p.ttl / time.Duration(1+rng.IntN(4))
	p.rates = drawRates(rand.New(rand.NewPCG(seed, 3)), p.candidates)
	people, places := deck{rng: rng}, deck{rng: rng}
	for _, k := range kinds {
		switch {
		case !k.suits(s), len(only) > 0 && !slices.Contains(only, k.name):
		case k.atServers:
			places.all = append(places.all, k)
		default:
			people.all = append(people.all, k)
		}
	}
	if episodes == 0 {
		episodes = max(len(people.all), len(places.all))
	}
	for range episodes {
		e := episode{calm: between(rng, 0, p.ttl/2)}
		decks := []*deck{&people, &places}
		if rng.IntN(2) == 0 {
			decks = append(decks, &people)
		}
		for _, d := range decks {
			if len(d.all) > 0 {
				e.faults = append(e.faults, p.fault(rng, d.deal()))
			}
		}
		p.episodes = append(p.episodes, e)
	}
	return p
}

// drawSoak plans a round of one long episode after the other, each of one
// fault, in which no process ends.
func drawSoak(seed uint64, episodes int) plan {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := plan{seed: seed, shape: soakShape, candidates: 3, ttl: time.Second}
	p.heartbeat, p.timeout = p.ttl/4, p.ttl/4
	p.rates = drawRates(rand.New(rand.NewPCG(seed, 3)), p.candidates)
	all := deck{rng: rng}
	for _, k := range kinds {
		if k.suits(p.shape) && !slices.Contains(soakSpares, k.name) {
			all.all = append(all.all, k)
		}
	}
	for range episodes {
		p.episodes = append(p.episodes, episode{faults: []fault{p.fault(rng, all.deal())}})
	}
	return p
}

func (p plan) fault(rng *rand.Rand, k kind) fault {
	return fault{
		kind: k, at: between(rng, 0, p.ttl), length: between(rng, p.ttl/2, 3*p.ttl),
		leader: rng.IntN(4) > 0, seat: rng.IntN(p.candidates), dice: rng.Uint64(),
	}
}

// A deck deals all kinds in random order, and then again.
type deck struct {
	rng  *rand.Rand
	all  []kind
	left []kind
}

func (d *deck) deal() kind {
	if len(d.left) == 0 {
		d.left = append(d.left, d.all...)
		d.rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	k := d.left[0]
	d.left = d.left[1:]
	return k
}
