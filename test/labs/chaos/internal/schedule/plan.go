package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Plan is the part of a round that the seed decides. The rest is up to the
// machine.
type Plan struct {
	Seed       uint64
	Shape      Shape
	TTL        time.Duration // the longest of a candidate
	Heartbeat  time.Duration
	Timeout    time.Duration // of each call to the store
	Candidates int
	Settings   []Settings // of the candidates
	// Unequal: their leases are of different lengths. That needs records that
	// nothing but another record replaces (docs/reference/protocol.md, A4).
	Unequal bool
	Expiry  Expiry
	Rates   []int // of the candidates' clocks, in thousandths; empty: the machine's clock for all
	// ServerRate is the rate of the servers' clocks; 0 means the machine's
	// clock. The servers' clocks bear on a record that expires, and on the age
	// of a bucket that is made again, for which the protocol bounds them.
	ServerRate int
	Quorum     bool     // the servers are one of three members of a quorum
	Only       []string // the kinds of faults that were asked for; empty: all
	Mutant     string   // the bug that the candidates have, if one was put into them
	Episodes   []Episode
}

// A Kind is a kind of fault.
type Kind struct {
	Name string
	Does string // for the table
	// AtServers: it is done to the servers or to what they store, and not to
	// one candidate.
	AtServers bool
	// Hides: it takes the record away, or makes it unreadable.
	Hides bool
	Suits func(Shape) bool
}

// An Episode is some faults at once. It is over when somebody leads again.
type Episode struct {
	Faults []Fault
	Calm   time.Duration // after it
}

// A Fault is one that was drawn.
type Fault struct {
	Kind      Kind
	At        time.Duration // from the begin of the episode
	Length    time.Duration
	Leader    bool   // it acts on the leader of that time, if there is one
	Contender int    // else for this candidate
	Dice      uint64 // for what else the kind has to draw
}

// RNG returns the fault's own source.
func (f Fault) RNG() *rand.Rand { return rand.New(rand.NewPCG(f.Dice, 0)) }

// Draw plans a round. The seed decides the shape too, so that a seed alone
// determines a round. With 0 episodes there are as many as let each kind come
// up. If only is not empty, it names the kinds that may come up. Faults come
// from two decks: one with the faults of candidates, the other with the faults
// of servers and the store. Each kind comes up before any comes up again.
func Draw(seed uint64, episodes int, kinds []Kind, only []string) Plan {
	s := Shapes[seed%uint64(len(Shapes))]
	rng := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Seed: seed, Shape: s, Only: only, Candidates: 3 + rng.IntN(2),
		TTL: time.Duration(8+rng.IntN(5)) * 100 * time.Millisecond,
	}
	p.Heartbeat = p.TTL / 4
	p.Timeout = p.TTL / time.Duration(1+rng.IntN(4))
	p.Rates = drawRates(rand.New(rand.NewPCG(seed, 3)), p.Candidates)
	settings := rand.New(rand.NewPCG(seed, 4))
	// Which faults there are decides it, where they were asked for.
	p.Unequal = !s.CoolsDown() && len(only) == 0 && settings.IntN(2) == 0
	p.Settings = p.drawSettings(settings)
	expiry := rand.New(rand.NewPCG(seed, 5))
	p.Expiry = p.drawExpiry(expiry)
	if p.Expires() && !s.CoolsDown() && expiry.IntN(2) == 0 {
		// The least that a candidate takes, so that a lease is cut short.
		p.ServerRate, p.Expiry.MaxAge = FastServers, p.TTL
	}
	people, places := deck{rng: rng}, deck{rng: rng}
	for _, k := range kinds {
		switch {
		case !p.Suits(k), len(only) > 0 && !slices.Contains(only, k.Name):
		case k.AtServers:
			places.all = append(places.all, k)
		default:
			people.all = append(people.all, k)
		}
	}
	if episodes == 0 {
		episodes = max(len(people.all), len(places.all))
	}
	for range episodes {
		e := Episode{Calm: Between(rng, 0, p.TTL/2)}
		decks := []*deck{&people, &places}
		if rng.IntN(2) == 0 {
			decks = append(decks, &people)
		}
		for _, d := range decks {
			if len(d.all) > 0 {
				e.Faults = append(e.Faults, p.fault(rng, d.deal()))
			}
		}
		p.Episodes = append(p.Episodes, e)
	}
	return p
}

// Suits reports whether a kind of fault is one for the round.
func (p Plan) Suits(k Kind) bool { return k.Suits(p.Shape) && !(p.Unequal && k.Hides) }

// soakSpares are the faults by which processes end, whose heaps are to be
// watched, and the herd, which is three minutes' work for the machine.
var soakSpares = []string{"kill", "stop", "herd"}

// DrawSoak plans a round of one long episode after the other, each of one
// fault, in which no process ends.
func DrawSoak(seed uint64, episodes int, kinds []Kind) Plan {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := Plan{Seed: seed, Shape: soakShape, Candidates: 3, TTL: time.Second}
	p.Heartbeat, p.Timeout = p.TTL/4, p.TTL/4
	p.Rates = drawRates(rand.New(rand.NewPCG(seed, 3)), p.Candidates)
	set := p.Common()
	set.HealthCheck = healthCheck(p.TTL)
	p.Settings = slices.Repeat([]Settings{set}, p.Candidates)
	all := deck{rng: rng}
	for _, k := range kinds {
		if p.Suits(k) && !slices.Contains(soakSpares, k.Name) {
			all.all = append(all.all, k)
		}
	}
	for range episodes {
		p.Episodes = append(p.Episodes, Episode{Faults: []Fault{p.fault(rng, all.deal())}})
	}
	return p
}

func (p Plan) fault(rng *rand.Rand, k Kind) Fault {
	return Fault{
		Kind: k, At: Between(rng, 0, p.TTL), Length: Between(rng, p.TTL/2, 3*p.TTL),
		Leader: rng.IntN(4) > 0, Contender: rng.IntN(p.Candidates), Dice: rng.Uint64(),
	}
}

// A deck deals all kinds in random order, and then again.
type deck struct {
	rng  *rand.Rand
	all  []Kind
	left []Kind
}

func (d *deck) deal() Kind {
	if len(d.left) == 0 {
		d.left = append(d.left, d.all...)
		d.rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	k := d.left[0]
	d.left = d.left[1:]
	return k
}

// Between draws a duration.
func Between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

// Faults counts the faults of the first episodes by their kind.
func (p Plan) Faults(episodes int) map[string]int {
	n := map[string]int{}
	for _, e := range p.Episodes[:episodes] {
		for _, f := range e.Faults {
			n[f.Kind.Name]++
		}
	}
	return n
}

// String names the faults of an episode.
func (e Episode) String() string {
	names := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		names[i] = f.Kind.Name
	}
	return strings.Join(names, " + ")
}

// Command is what plays the plan again.
func (p Plan) Command() string {
	line := fmt.Sprintf("go run ./test/labs/chaos --seed %d --rounds 1 --episodes %d", p.Seed, len(p.Episodes))
	if p.Mutant != "" {
		line = fmt.Sprintf("go run ./test/labs/chaos --mutant %s --seed %d", p.Mutant, p.Seed)
	} else if len(p.Only) > 0 {
		line += fmt.Sprintf(" --only %q", strings.Join(p.Only, ","))
	}
	if p.Quorum {
		line += " --quorum"
	}
	if len(p.Rates) == 0 {
		line += " --no-clocks"
	}
	return line
}
