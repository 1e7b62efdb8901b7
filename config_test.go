package leader_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// faults returns the broken rules that an error lists.
func faults(err error) (all []*leader.ConfigError) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case *leader.ConfigError:
		return []*leader.ConfigError{e}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			all = append(all, faults(err)...)
		}
	case interface{ Unwrap() error }:
		return faults(e.Unwrap())
	}
	return all
}

func fields(err error) (names []string) {
	for _, f := range faults(err) {
		names = append(names, f.Field)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestEveryRuleOfTheConfigurationIsEnforced(t *testing.T) {
	type cfg = leader.ElectionConfig
	const forever = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		edit   func(*cfg)
		fields []string // those at fault
	}{
		"no group":                     {func(c *cfg) { c.Group = "" }, []string{"Group"}},
		"a group with a space":         {func(c *cfg) { c.Group = "a b" }, []string{"Group"}},
		"a group with a wildcard":      {func(c *cfg) { c.Group = "a.*" }, []string{"Group"}},
		"a group with an end of line":  {func(c *cfg) { c.Group = "a\r\nPUB x 0" }, []string{"Group"}},
		"a group with a leading dot":   {func(c *cfg) { c.Group = ".a" }, []string{"Group"}},
		"a group with a final dot":     {func(c *cfg) { c.Group = "a." }, []string{"Group"}},
		"a group with two dots":        {func(c *cfg) { c.Group = "a..b" }, []string{"Group"}},
		"a group in another script":    {func(c *cfg) { c.Group = "führung" }, []string{"Group"}},
		"a control record":             {func(c *cfg) { c.Group = "_ctl.g" }, []string{"Group"}},
		"a run":                        {func(c *cfg) { c.Group = "_ran.g" }, []string{"Group"}},
		"a drained instance":           {func(c *cfg) { c.Group = "_drain.g" }, []string{"Group"}},
		"a group of 252 bytes":         {func(c *cfg) { c.Group = strings.Repeat("g", 252) }, []string{"Group"}},
		"a group beyond all keys":      {func(c *cfg) { c.Group = strings.Repeat("g", 5000) }, []string{"Group"}},
		"no instance":                  {func(c *cfg) { c.InstanceID = "" }, []string{"InstanceID"}},
		"an instance of 257 bytes":     {func(c *cfg) { c.InstanceID = strings.Repeat("i", 257) }, []string{"InstanceID"}},
		"an instance with a control":   {func(c *cfg) { c.InstanceID = "a\x1b[2J" }, []string{"InstanceID"}},
		"an instance with a newline":   {func(c *cfg) { c.InstanceID = "a\n" }, []string{"InstanceID"}},
		"an instance of invalid UTF-8": {func(c *cfg) { c.InstanceID = "a\xff" }, []string{"InstanceID"}},
		"an invisible instance":        {func(c *cfg) { c.InstanceID = "a\u202e" }, []string{"InstanceID"}},

		"no TTL":                        {func(c *cfg) { c.TTL = 0 }, []string{"TTL"}},
		"a negative TTL":                {func(c *cfg) { c.TTL = -ttl }, []string{"TTL"}},
		"a TTL of 49 ms":                {func(c *cfg) { c.TTL, c.HeartbeatInterval = 49*time.Millisecond, time.Millisecond }, []string{"TTL"}},
		"a TTL of an hour and a bit":    {func(c *cfg) { c.TTL = time.Hour + time.Millisecond }, []string{"TTL"}},
		"a TTL for ever":                {func(c *cfg) { c.TTL = forever }, []string{"TTL"}},
		"a TTL of a fraction":           {func(c *cfg) { c.TTL = ttl + 1 }, []string{"TTL"}},
		"no heartbeat":                  {func(c *cfg) { c.HeartbeatInterval = 0 }, []string{"HeartbeatInterval"}},
		"a negative heartbeat":          {func(c *cfg) { c.HeartbeatInterval = -1 }, []string{"HeartbeatInterval"}},
		"a heartbeat of TTL/3 and more": {func(c *cfg) { c.HeartbeatInterval = ttl/3 + 1 }, []string{"TTL"}},
		"a heartbeat that overflows":    {func(c *cfg) { c.HeartbeatInterval = 1 << 62 }, []string{"TTL"}},
		"a heartbeat for ever":          {func(c *cfg) { c.HeartbeatInterval = forever }, []string{"TTL"}},

		"a negative timeout":                   {func(c *cfg) { c.ConnectionTimeout = -1 }, []string{"ConnectionTimeout"}},
		"a timeout beyond the TTL":             {func(c *cfg) { c.ConnectionTimeout = ttl + 1 }, []string{"ConnectionTimeout"}},
		"a negative grace":                     {func(c *cfg) { c.DisconnectGracePeriod = -1 }, []string{"DisconnectGracePeriod"}},
		"a negative demotion":                  {func(c *cfg) { c.DemoteTimeout = -1 }, []string{"DemoteTimeout"}},
		"a negative validation":                {func(c *cfg) { c.Fencing.ValidationInterval = -1 }, []string{"Fencing.ValidationInterval"}},
		"a negative drift":                     {func(c *cfg) { c.ClockDrift = -0.1 }, []string{"ClockDrift"}},
		"a drift of a third":                   {func(c *cfg) { c.ClockDrift = 0.34 }, []string{"ClockDrift"}},
		"a drift that is no number":            {func(c *cfg) { c.ClockDrift = math.NaN() }, []string{"ClockDrift"}},
		"an infinite drift":                    {func(c *cfg) { c.ClockDrift = math.Inf(1) }, []string{"ClockDrift"}},
		"negative failures":                    {func(c *cfg) { c.MaxConsecutiveFailures = -1 }, []string{"MaxConsecutiveFailures"}},
		"a foreign lease shorter than TTL":     {func(c *cfg) { c.ForeignTTL = c.TTL - 1 }, []string{"ForeignTTL"}},
		"a foreign lease of an hour and a bit": {func(c *cfg) { c.ForeignTTL = leader.MaxTTL + 1 }, []string{"ForeignTTL"}},
		"a foreign lease below zero":           {func(c *cfg) { c.ForeignTTL = -1 }, []string{"ForeignTTL"}},
		"an unknown grace":                     {func(c *cfg) { c.AcquireGrace = leader.GraceOff + 1 }, []string{"AcquireGrace"}},

		"negative attempts":   {func(c *cfg) { c.RetryConfig.MaxAttempts = -1 }, []string{"RetryConfig.MaxAttempts"}},
		"a negative delay":    {func(c *cfg) { c.RetryConfig.InitialBackoff = -1 }, []string{"RetryConfig.InitialBackoff"}},
		"a negative bound":    {func(c *cfg) { c.RetryConfig.MaxBackoff = -1 }, []string{"RetryConfig.MaxBackoff"}},
		"delays that shrink":  {func(c *cfg) { c.RetryConfig.BackoffMultiplier = 0.9 }, []string{"RetryConfig.BackoffMultiplier"}},
		"delays of no number": {func(c *cfg) { c.RetryConfig.BackoffMultiplier = math.NaN() }, []string{"RetryConfig.BackoffMultiplier"}},
		"delays that explode": {func(c *cfg) { c.RetryConfig.BackoffMultiplier = math.Inf(1) }, []string{"RetryConfig.BackoffMultiplier"}},
		"a negative jitter":   {func(c *cfg) { c.RetryConfig.Jitter = -0.1 }, []string{"RetryConfig.Jitter"}},
		"a jitter beyond 1":   {func(c *cfg) { c.RetryConfig.Jitter = 1.1 }, []string{"RetryConfig.Jitter"}},
		"a jitter no number":  {func(c *cfg) { c.RetryConfig.Jitter = math.NaN() }, []string{"RetryConfig.Jitter"}},
		"a jitter without en": {func(c *cfg) { c.RetryConfig.Jitter = math.Inf(-1) }, []string{"RetryConfig.Jitter"}},

		"a bound below the first delay": {
			func(c *cfg) { c.RetryConfig.InitialBackoff, c.RetryConfig.MaxBackoff = time.Second, time.Millisecond },
			[]string{"RetryConfig.MaxBackoff"},
		},
		"a negative check interval":        {func(c *cfg) { c.HealthCheckInterval = -1 }, []string{"HealthCheckInterval", "HealthCheckTimeout"}},
		"a check longer than its interval": {func(c *cfg) { c.HealthCheckTimeout = 2 * heartbeat }, []string{"HealthCheckTimeout"}},
		"negative replicas":                {func(c *cfg) { c.Replicas = -1 }, []string{"Replicas"}},
		"a negative bound of the bucket":   {func(c *cfg) { c.BucketMaxBytes = -1 }, []string{"BucketMaxBytes"}},
		"six replicas":                     {func(c *cfg) { c.Replicas = 6 }, []string{"Replicas"}},
		"a negative tenure":                {func(c *cfg) { c.MinTenure = -1 }, []string{"MinTenure"}},
		"a version in quotes":              {func(c *cfg) { c.Version = `"1"` }, []string{"Version"}},
		"a version of 65 bytes":            {func(c *cfg) { c.Version = strings.Repeat("1", 65) }, []string{"Version"}},
		"an unknown policy":                {func(c *cfg) { c.VersionPolicy, c.Version = 3, "1.0" }, []string{"VersionPolicy"}},
		"a policy without a version":       {func(c *cfg) { c.VersionPolicy = leader.PreferOlder }, []string{"Version"}},
		"a policy with a name":             {func(c *cfg) { c.VersionPolicy, c.Version = leader.PreferNewer, "jellyfish" }, []string{"Version"}},
		"a negative splay":                 {func(c *cfg) { c.Campaign.Splay = -1 }, []string{"Campaign.Splay"}},
		"a negative back-off":              {func(c *cfg) { c.Campaign.Backoff = -1 }, []string{"Campaign.Backoff"}},
		"a back-off beyond its bound": {
			func(c *cfg) { c.Campaign.Backoff, c.Campaign.MaxBackoff = time.Second, time.Millisecond }, []string{"Campaign.MaxBackoff"},
		},
		"a record that no store takes": {
			func(c *cfg) { c.Meta = map[string]string{"x": strings.Repeat("x", store.MaxValue)} }, []string{"Meta"},
		},
		"an address that no store takes": {
			func(c *cfg) { c.Address = strings.Repeat("x", store.MaxValue) }, []string{"Address"},
		},
		"parameters beyond their bound": {
			func(c *cfg) { c.ConnectionParams = make([]byte, leader.MaxConnectionParams+1) }, []string{"ConnectionParams"},
		},
		"parameters beside a long address": {
			func(c *cfg) {
				c.ConnectionParams, c.Address = make([]byte, leader.MaxConnectionParams), strings.Repeat("x", 5<<10)
			},
			[]string{"ConnectionParams"},
		},
		"metadata beside long parameters": {
			func(c *cfg) {
				c.ConnectionParams = make([]byte, 4<<10)
				c.Meta = map[string]string{"x": strings.Repeat("x", 10<<10)}
			},
			[]string{"Meta"},
		},
		"everything at once": {
			func(c *cfg) {
				*c = cfg{Group: "*", InstanceID: "\n", ClockDrift: 1, MaxConsecutiveFailures: -1, DemoteTimeout: -1}
				c.RetryConfig.Jitter = 2
			},
			[]string{"ClockDrift", "DemoteTimeout", "Group", "HeartbeatInterval", "InstanceID", "MaxConsecutiveFailures", "RetryConfig.Jitter", "TTL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config("a")
			c.edit(&cfg)
			e, err := leader.NewElectionWithStore(memstore.New(), cfg)
			if e != nil || !errors.Is(err, leader.ErrInvalidConfig) {
				t.Fatalf("%v, %v", e, err)
			}
			if got := fields(err); !slices.Equal(got, c.fields) {
				t.Errorf("faults of %q, want %q:\n%v", got, c.fields, err)
			}
			for _, f := range faults(err) {
				if f.Rule == "" || f.Value == nil || !strings.Contains(err.Error(), f.Error()) {
					t.Errorf("%+v is not reported in\n%v", f, err)
				}
			}
		})
	}
}

func TestConfigurationsAtTheEdgesOfTheRulesAreAccepted(t *testing.T) {
	type cfg = leader.ElectionConfig
	const forever = time.Duration(math.MaxInt64)
	for name, edit := range map[string]func(*cfg){
		"only what is required": func(c *cfg) { *c = cfg{Group: "g", InstanceID: "a", TTL: ttl, HeartbeatInterval: heartbeat} },
		"the shortest lease":    func(c *cfg) { c.TTL, c.HeartbeatInterval = leader.MinTTL, leader.MinTTL/3 },
		"the longest lease":     func(c *cfg) { c.TTL = leader.MaxTTL },
		"the longest group":     func(c *cfg) { c.Group = strings.Repeat("g", 251) },
		"every letter":          func(c *cfg) { c.Group = "-/_=.azAZ09/x" },
		"the longest instance":  func(c *cfg) { c.InstanceID = strings.Repeat("i", 256) },
		"an instance of people": func(c *cfg) { c.InstanceID = "Jörg's 猫 #1 {}" },
		"the largest drift":     func(c *cfg) { c.ClockDrift = 0.3 },
		"the smallest drift":    func(c *cfg) { c.ClockDrift = math.SmallestNonzeroFloat64 },
		"the full jitter":       func(c *cfg) { c.RetryConfig.Jitter = 1 },
		"the most parameters":   func(c *cfg) { c.ConnectionParams = make([]byte, leader.MaxConnectionParams) },
		"constant delays":       func(c *cfg) { c.RetryConfig.BackoffMultiplier = 1 },
		"a long first delay":    func(c *cfg) { c.RetryConfig.InitialBackoff = time.Hour },
		"times without end": func(c *cfg) {
			c.DisconnectGracePeriod, c.DemoteTimeout, c.Fencing.ValidationInterval = forever, forever, forever
			c.RetryConfig.MaxBackoff = forever
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config("a")
			edit(&cfg)
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A setting of for ever must not overflow into one of not at all.
func TestHugeDurationsDoNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const forever = time.Duration(math.MaxInt64)
		f, cfg := network(t, nil), config("a")
		cfg.DisconnectGracePeriod, cfg.DemoteTimeout = forever, forever
		a := candidate(t, f.Client("a"), cfg)
		a.OnDemote(func() { time.Sleep(time.Minute) })
		mustLead(t, started(t, a))
		b := start(t, f.Client("b"), config("b"))
		f.Partition("a")
		time.Sleep(time.Millisecond)
		mustLead(t, a, b)
		f.Heal("a")
		go func() { _ = a.Resign(t.Context()) }()
		time.Sleep(59 * time.Second)
		mustNotLead(t, a, b)
		time.Sleep(2 * time.Second)
		mustLead(t, b, a)
	})
}

func TestLargestBackoffMultiplierStillRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New(), err: store.ErrTransient}
		cfg := config("a")
		cfg.RetryConfig.BackoffMultiplier = math.MaxFloat64
		a := start(t, st, cfg)
		time.Sleep(time.Minute)
		if n := st.count(); n < 10 || n > 100 {
			t.Fatalf("%d checks in a minute", n)
		}
		halt(t, a)
	})
}

func TestDefaultsMatchTheDocumentation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := newJournal(), network(t, nil)
		cfg := leader.ElectionConfig{Group: "g", InstanceID: "a", TTL: ttl, HeartbeatInterval: heartbeat}
		cfg.Hooks.Call = func(c leader.Call) {
			if c.Err != nil {
				j.note("%s ended after %v", c.Kind, c.Took)
			}
		}
		cfg.Hooks.Transition = func(tr leader.Transition) { j.noteAt("%s", tr.To) }
		a := start(t, f.Client("a"), cfg)
		mustLead(t, a)
		f.BlackHole("a")
		time.Sleep(trust + 5*time.Second)
		synctest.Wait()
		// ConnectionTimeout is TTL/4, and ClockDrift 10 %.
		if j.count("renew ended after 750ms") == 0 || j.count("2.7s DEMOTED") != 1 {
			t.Fatalf("%q", j.all())
		}
	})
}

func TestConfigErrorNamesFieldValueAndRule(t *testing.T) {
	for want, e := range map[string]leader.ConfigError{
		`Group "a b" must not`:  {Field: "Group", Value: "a b", Rule: "must not"},
		`TTL 1s must be longer`: {Field: "TTL", Value: time.Second, Rule: "must be longer"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNilStoreAndNilConnectionAreRefused(t *testing.T) {
	cfg := config("a")
	cfg.Bucket = "b"
	lead := func(context.Context, leader.Term) error { return nil }
	_, err := leader.NewElectionWithStore(nil, cfg)
	_, err2 := leader.NewElection(nil, cfg)
	for _, err := range []error{err, err2, leader.Run(t.Context(), nil, cfg, lead), leader.RunWithStore(t.Context(), nil, cfg, lead)} {
		if !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%v", err)
		}
	}
}

func TestBucketNameIsValidatedWithTheRest(t *testing.T) {
	for _, bucket := range []string{"", "a.b", "a b", "a*", "ä", strings.Repeat("b", 256)} {
		cfg := config("a")
		cfg.Bucket, cfg.Group = bucket, ""
		_, err := leader.NewElection(new(nats.Conn), cfg)
		if !errors.Is(err, leader.ErrInvalidConfig) || !slices.Equal(fields(err), []string{"Bucket", "Group"}) {
			t.Errorf("%q: %v", bucket, err)
		}
	}
	for bucket, faults := range map[string]int{"b": 1, "B-_9": 1, strings.Repeat("b", 255): 1, strings.Repeat("b", 256): 2} {
		cfg := config("a")
		cfg.Bucket, cfg.Group = bucket, ""
		if _, err := leader.NewElection(new(nats.Conn), cfg); len(fields(err)) != faults {
			t.Errorf("%q: %v", bucket, err)
		}
	}
	for _, err := range leader.Observe(t.Context(), new(nats.Conn), "a.b", "g") {
		if err == nil {
			t.Error("observed an invalid bucket")
		}
		break
	}
}

func TestTermSupersedesLargerNumbersAndItself(t *testing.T) {
	old, other, newer := leader.Term{Number: 4, Token: "a"}, leader.Term{Number: 4, Token: "b"}, leader.Term{Number: 5, Token: "c"}
	for _, c := range []struct {
		t, last leader.Term
		want    bool
	}{
		{old, leader.Term{}, true}, {old, old, true}, {newer, old, true}, {old, newer, false}, {other, old, false}, {leader.Term{}, old, false}, {leader.Term{}, leader.Term{}, false},
	} {
		if got := c.t.Supersedes(c.last); got != c.want {
			t.Errorf("%v after %v: %v", c.t, c.last, got)
		}
	}
}

func TestTermDoesNotPrintItsToken(t *testing.T) {
	var b strings.Builder
	term := leader.Term{Number: 4, Token: "3f9a6f8d-secret"}
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "term", term, "error", &leader.LossError{Term: term, Reason: leader.ReasonStopped})
	b.WriteString(term.String())
	if s := b.String(); strings.Contains(s, "secret") || !strings.Contains(s, "number=4") || !strings.Contains(s, "4/") {
		t.Fatal(s)
	}
}

var profiles = []leader.Profile{leader.ProfileLowLatency, leader.ProfileStable, leader.ProfileHighThroughput}

func named(c leader.ElectionConfig) leader.ElectionConfig {
	c.Group, c.InstanceID = "g", "a"
	return c
}

func TestEachProfileIsAValidConfiguration(t *testing.T) {
	for _, p := range profiles {
		if err := named(leader.ElectionConfig{}).WithProfile(p).Validate(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func TestProfileFillsOnlyUnsetFields(t *testing.T) {
	set := leader.ElectionConfig{
		TTL: time.Second, HeartbeatInterval: 100 * time.Millisecond, ConnectionTimeout: 50 * time.Millisecond, DeleteOnStop: true,
		RetryConfig: leader.RetryConfig{MaxAttempts: 7}, Fencing: leader.FencingConfig{ValidateOnCriticalOps: true},
	}
	for _, p := range profiles {
		got := set.WithProfile(p)
		if fmt.Sprint(got) != fmt.Sprint(set) {
			t.Errorf("%v changed what was set:\n got %+v\nwant %+v", p, got, set)
		}
	}
}

func TestProfileSuitsTheTTLOrTheHeartbeatOfTheCaller(t *testing.T) {
	for _, p := range profiles {
		for d := leader.MinTTL; d < leader.MaxTTL/3; d *= 2 {
			for what, c := range map[string]leader.ElectionConfig{"TTL": {TTL: d}, "HeartbeatInterval": {HeartbeatInterval: d}} {
				if err := named(c).WithProfile(p).Validate(); err != nil {
					t.Errorf("%v beside %s %v: %v", p, what, d, err)
				}
			}
		}
	}
}

// A TTL has to be of whole milliseconds, which three intervals need not be.
func TestProfileRoundsTheTTLThatItFillsIn(t *testing.T) {
	for _, p := range profiles {
		for _, d := range []time.Duration{10 * time.Second / 3, 20*time.Second/3 + 1, 7*time.Second + time.Nanosecond} {
			c := named(leader.ElectionConfig{HeartbeatInterval: d}).WithProfile(p)
			if err := c.Validate(); err != nil || c.HeartbeatInterval != d {
				t.Errorf("%v beside HeartbeatInterval %v: %v", p, d, err)
			}
		}
	}
}

func TestProfileDoesNotHideWrongValues(t *testing.T) {
	for _, c := range []leader.ElectionConfig{{TTL: -time.Second}, {HeartbeatInterval: -1}, {HeartbeatInterval: 1 << 62}} {
		if err := named(c).WithProfile(leader.ProfileStable).Validate(); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%v, %v: %v", c.TTL, c.HeartbeatInterval, err)
		}
	}
	if got := (leader.ElectionConfig{}).WithProfile(leader.Profile(9)); got.TTL != 0 {
		t.Errorf("an unknown profile filled in a TTL of %v", got.TTL)
	}
}

func TestProfileIsChosenByItsName(t *testing.T) {
	for _, want := range profiles {
		var got leader.Profile
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.TextVar(&got, "profile", leader.ProfileStable, "")
		if err := fs.Parse([]string{"-profile", want.String()}); err != nil || got != want {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	var p leader.Profile
	for _, text := range []string{"", "fast", "Profile(0)"} {
		if err := p.UnmarshalText([]byte(text)); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := p.MarshalText(); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("the zero Profile has a name: %v", err)
	}
}

// profileOutages is how long each profile's terms survive a store that takes no
// writes, wherever in the interval between two renewals the outage begins.
// docs/operate/tuning.md and the constants' documentation contain the same values.
var profileOutages = map[leader.Profile]time.Duration{
	leader.ProfileLowLatency:     1400 * time.Millisecond,
	leader.ProfileStable:         11 * time.Second,
	leader.ProfileHighThroughput: 6500 * time.Millisecond,
}

func TestTermSurvivesTheOutageThatItsProfilePromises(t *testing.T) {
	const phases = 16
	for _, p := range profiles {
		cfg := named(leader.ElectionConfig{}).WithProfile(p)
		for i := range phases {
			begin := 1 + cfg.HeartbeatInterval*time.Duration(i)/phases
			for _, silent := range []bool{false, true} {
				if !survives(t, cfg, begin, profileOutages[p], silent) {
					t.Errorf("%v: lost its term to an outage of %v that began %v after a renewal (silent: %v)",
						p, profileOutages[p], begin, silent)
				}
			}
		}
		if survives(t, cfg, 1, cfg.TTL, true) {
			t.Errorf("%v: survived an outage as long as its TTL: the outage is none", p)
		}
	}
}

// survives reports whether a term outlasts an outage that begins so long after
// the acquisition.
func survives(t *testing.T, cfg leader.ElectionConfig, begin, lasts time.Duration, silent bool) (survived bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := &unwritable{Store: memstore.New(), silent: silent, from: time.Now().Add(begin)}
		st.until = st.from.Add(lasts)
		e := start(t, st, cfg)
		term := e.Term()
		time.Sleep(begin + lasts + 2*cfg.TTL)
		survived = !term.IsZero() && e.Term() == term
	})
	return survived
}

// An unwritable store refuses writes for a while, or does not answer them.
type unwritable struct {
	store.Store
	silent      bool
	from, until time.Time
}

func (u *unwritable) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if now := time.Now(); now.Before(u.from) || !now.Before(u.until) {
		return u.Store.CompareAndSwap(ctx, w)
	}
	if u.silent {
		<-ctx.Done()
		return 0, store.ErrUnknown
	}
	return 0, store.ErrTransient
}

// TestTableOfProfilesInTheHandbookIsCurrent holds the table in docs/operate/tuning.md to the
// code.
func TestTableOfProfilesInTheHandbookIsCurrent(t *testing.T) {
	want := profileTable()
	doc, err := os.ReadFile("docs/operate/tuning.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(doc, []byte(want)) {
		t.Errorf("docs/operate/tuning.md does not have this table:\n%s", want)
	}
}

// profileTable is the table as the document has to show it.
func profileTable() string {
	const drift = leader.DefaultClockDrift
	rows := []struct {
		name string
		of   func(leader.Profile, leader.ElectionConfig) any
	}{
		{"`TTL`", func(_ leader.Profile, c leader.ElectionConfig) any { return c.TTL }},
		{"`HeartbeatInterval`", func(_ leader.Profile, c leader.ElectionConfig) any { return c.HeartbeatInterval }},
		{"`ConnectionTimeout`", func(_ leader.Profile, c leader.ElectionConfig) any { return unlessZero(c.ConnectionTimeout) }},
		{"`RetryConfig.MaxBackoff`", func(_ leader.Profile, c leader.ElectionConfig) any { return unlessZero(c.RetryConfig.MaxBackoff) }},
		{"`DeleteOnStop`", func(_ leader.Profile, c leader.ElectionConfig) any { return unlessZero(c.DeleteOnStop) }},
		{"`Fencing.CacheToken`", func(_ leader.Profile, c leader.ElectionConfig) any { return unlessZero(c.Fencing.CacheToken) }},
		{"failover after a crash, from the last renewal, takes about", func(_ leader.Profile, c leader.ElectionConfig) any {
			return time.Duration(float64(c.TTL) * (1 + drift)).Round(time.Millisecond)
		}},
		{"a term survives a store that takes no writes for", func(p leader.Profile, _ leader.ElectionConfig) any { return profileOutages[p] }},
		{"writes of a leader per minute", func(_ leader.Profile, c leader.ElectionConfig) any { return int(time.Minute / c.HeartbeatInterval) }},
	}
	var b strings.Builder
	b.WriteString("| | `low-latency` | `stable` | `high-throughput` |\n| --- | --- | --- | --- |\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, p := range profiles {
			fmt.Fprintf(&b, " %v |", row.of(p, leader.ElectionConfig{}.WithProfile(p)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// unlessZero shows a field that the profile leaves to its default as a dash.
func unlessZero[T comparable](v T) any {
	var zero T
	if v == zero {
		return "–"
	}
	return v
}

func TestSpecifiedFieldsHaveTheirNamesAndTypes(t *testing.T) {
	for _, c := range []struct {
		of     any
		fields map[string]string
	}{
		{leader.ElectionConfig{}, map[string]string{
			"Bucket": "string", "Group": "string", "InstanceID": "string",
			"TTL": "time.Duration", "HeartbeatInterval": "time.Duration",
			"Priority": "int", "Logger": "*slog.Logger",
			"ConnectionTimeout": "time.Duration", "DisconnectGracePeriod": "time.Duration",
			"Fencing": "leader.FencingConfig", "HealthChecker": "leader.HealthChecker", "RetryConfig": "leader.RetryConfig",
			"BucketAutoCreate": "bool", "DeleteOnStop": "bool", "AllowPriorityTakeover": "bool",
		}},
		{leader.FencingConfig{}, map[string]string{
			"ValidationInterval": "time.Duration", "ValidateOnCriticalOps": "bool", "CacheToken": "bool",
		}},
		{leader.RetryConfig{}, map[string]string{
			"MaxAttempts": "int", "InitialBackoff": "time.Duration", "MaxBackoff": "time.Duration",
			"BackoffMultiplier": "float64", "Jitter": "float64",
		}},
		{leader.StopOptions{}, map[string]string{
			"DeleteKey": "bool", "WaitForDemote": "bool", "Timeout": "time.Duration",
		}},
		{leader.ElectionStatus{}, map[string]string{
			"State": "string", "IsLeader": "bool", "LeaderID": "string", "Token": "string",
			"LastHeartbeat": "time.Time", "LastTransition": "time.Time", "Revision": "uint64", "ConnectionStatus": "string",
		}},
	} {
		typ := reflect.TypeOf(c.of)
		for name, want := range c.fields {
			if f, ok := typ.FieldByName(name); !ok || f.Type.String() != want {
				t.Errorf("%v.%s is %v, want %s", typ, name, f.Type, want)
			}
		}
	}
}

func TestRequiredFieldsAreRequired(t *testing.T) {
	_, err := leader.NewElection(new(nats.Conn), leader.ElectionConfig{})
	for _, field := range []string{"Bucket", "Group", "InstanceID", "TTL", "HeartbeatInterval"} {
		if !slices.Contains(fields(err), field) {
			t.Errorf("no fault of %s in\n%v", field, err)
		}
	}
}

// Two processes of one host have InstanceIDs of their own, and a name that is
// set afterwards stays.
func TestConfigForNamesEachProcess(t *testing.T) {
	a, b := leader.ConfigFor("g", leader.ProfileStable), leader.ConfigFor("g", leader.ProfileStable)
	if a.InstanceID == b.InstanceID || a.Validate() != nil || a.TTL != 20*time.Second {
		t.Errorf("%+v, %+v", a, b)
	}
	if err := leader.ConfigFor("g", 0).Validate(); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("without a profile: %v", err)
	}
}
