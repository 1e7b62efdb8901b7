package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// Settings are those of one candidate. What is zero is the library's default.
type Settings struct {
	TTL       time.Duration
	Heartbeat time.Duration
	Timeout   time.Duration // of each call to the store

	Priority  int
	Takeover  bool // it has a leader go that it is preferred to
	MinTenure time.Duration
	Version   string
	Policy    leader.VersionPolicy

	DisconnectGrace time.Duration
	Validation      time.Duration // how often a leader proves its token; 0: never
	HealthCheck     time.Duration // how often it looks whether it is well; 0: never
}

// Common are the settings that a round's candidates have but for what is drawn
// for each.
func (p Plan) Common() Settings {
	return Settings{TTL: p.TTL, Heartbeat: p.Heartbeat, Timeout: p.Timeout}
}

// drawSettings draws the settings of each candidate. In half of the rounds all
// are of one standing, as most groups are.
func (p Plan) drawSettings(rng *rand.Rand) []Settings {
	all := make([]Settings, p.Candidates)
	alike := rng.IntN(2) == 0
	policy := []leader.VersionPolicy{leader.PreferAny, leader.PreferOlder, leader.PreferNewer}[rng.IntN(3)]
	for i := range all {
		s := p.Common()
		if p.Unequal {
			// Whole milliseconds, which records state.
			s.TTL = Between(rng, p.TTL/2, p.TTL).Truncate(time.Millisecond)
			s.Heartbeat, s.Timeout = s.TTL/4, min(s.Timeout, s.TTL)
		}
		if !alike {
			s.Priority, s.Takeover = rng.IntN(3), rng.IntN(3) > 0
			s.Policy, s.Version = policy, []string{"1.0.0", "1.1.0"}[rng.IntN(2)]
			s.MinTenure = oneOf(rng, 0, p.TTL)
		}
		s.DisconnectGrace = oneOf(rng, 0, p.TTL/4)
		s.Validation = oneOf(rng, 0, p.TTL/2)
		s.HealthCheck = healthCheck(s.TTL)
		all[i] = s
	}
	return all
}

// healthCheck is often enough for a fault to be noticed.
func healthCheck(ttl time.Duration) time.Duration { return ttl / 8 }

func oneOf(rng *rand.Rand, all ...time.Duration) time.Duration { return all[rng.IntN(len(all))] }

// Ranked reports whether candidates are preferred to others.
func (p Plan) Ranked() bool {
	return slices.ContainsFunc(p.Settings, func(s Settings) bool { return s.Version != "" })
}

// Standings says how the candidates stand to each other, and which leases they
// have.
func (p Plan) Standings() string {
	var parts []string
	if p.Unequal {
		ttls := make([]string, len(p.Settings))
		for i, s := range p.Settings {
			ttls[i] = s.TTL.String()
		}
		parts = append(parts, "unequal TTLs "+strings.Join(ttls, " "))
	}
	if p.Ranked() {
		ranks := make([]string, len(p.Settings))
		for i, s := range p.Settings {
			ranks[i] = fmt.Sprintf("%d/%s", s.Priority, s.Version)
		}
		parts = append(parts, fmt.Sprintf("ranks %s by %v", strings.Join(ranks, " "), p.Settings[0].Policy))
	}
	if len(parts) == 0 {
		return "all alike"
	}
	return strings.Join(parts, ", ")
}
