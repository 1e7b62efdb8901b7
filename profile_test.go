package leader_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

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

func TestAProfileFillsOnlyUnsetFields(t *testing.T) {
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

func TestAProfileSuitsTheTTLOrTheHeartbeatOfTheCaller(t *testing.T) {
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
func TestAProfileRoundsTheTTLThatItFillsIn(t *testing.T) {
	for _, p := range profiles {
		for _, d := range []time.Duration{10 * time.Second / 3, 20*time.Second/3 + 1, 7*time.Second + time.Nanosecond} {
			c := named(leader.ElectionConfig{HeartbeatInterval: d}).WithProfile(p)
			if err := c.Validate(); err != nil || c.HeartbeatInterval != d {
				t.Errorf("%v beside HeartbeatInterval %v: %v", p, d, err)
			}
		}
	}
}

func TestAProfileDoesNotHideWrongValues(t *testing.T) {
	for _, c := range []leader.ElectionConfig{{TTL: -time.Second}, {HeartbeatInterval: -1}, {HeartbeatInterval: 1 << 62}} {
		if err := named(c).WithProfile(leader.ProfileStable).Validate(); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%v, %v: %v", c.TTL, c.HeartbeatInterval, err)
		}
	}
	if got := (leader.ElectionConfig{}).WithProfile(leader.Profile(9)); got.TTL != 0 {
		t.Errorf("what is no profile filled in a TTL of %v", got.TTL)
	}
}

func TestAProfileIsChosenByItsName(t *testing.T) {
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
// writes, whenever in the interval between two renewals it begins.
// docs/operations.md and the constants' documentation say so.
var profileOutages = map[leader.Profile]time.Duration{
	leader.ProfileLowLatency:     1400 * time.Millisecond,
	leader.ProfileStable:         11 * time.Second,
	leader.ProfileHighThroughput: 6500 * time.Millisecond,
}

func TestATermSurvivesTheOutageThatItsProfilePromises(t *testing.T) {
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

// TestTheTableOfProfilesIsTheCode holds the table in docs/operations.md to the
// code.
func TestTheTableOfProfilesIsTheCode(t *testing.T) {
	want := profileTable()
	doc, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(doc, []byte(want)) {
		t.Errorf("docs/operations.md does not have this table:\n%s", want)
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
