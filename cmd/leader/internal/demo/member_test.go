package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/seed-ff2cb582/leader"
)

// A term outlives one member, and nobody leads without two. Its lease is long,
// so that a slow machine ends no term.
func TestTermOutlivesAMemberAndNobodyLeadsWithoutTwo(t *testing.T) {
	t.Parallel()
	c := demoOf(t, "work")
	c.Store, c.TTL, c.Heartbeat = quorum, 6*time.Second, 0
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	st, err := c.stage(kit())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &model{st: st, log: &journal{}, width: 100, height: 30}
	played := make(chan error, 1)
	go func() { played <- st.play(ctx, m.log.add) }()
	defer func() {
		cancel()
		if err := errors.Join(<-played, st.close()); err != nil {
			t.Error(err)
		}
	}()
	press := func(key string) {
		t.Helper()
		await(t, m, func() bool { return m.scene.server == "" }) // one server stops or starts at a time
		m.key(key)()
	}
	seen := func(fits func(Event) bool) func() bool {
		from := len(m.lines)
		return func() bool { return slices.ContainsFunc(m.lines[from:], fits) }
	}
	shows := func(text string) func() bool {
		return func() bool { return strings.Contains(ansi.Strip(m.draw()), text) }
	}

	await(t, m, func() bool { return m.scene != nil && m.scene.ours })
	await(t, m, shows("members  a up to date · b up to date · c up to date"))
	term := m.scene.term
	kept := seen(func(e Event) bool { return e.Kind == EventKept && e.Fault == Kill && e.Term == term })
	press("m")
	await(t, m, kept)
	await(t, m, shows("members  a killed · b up to date · c up to date"))

	over := seen(func(e Event) bool { return e.Kind == EventTransition && e.From == leader.StateLeader && e.Term == term })
	press("m")
	await(t, m, over)
	await(t, m, shows("nobody leads"))
	await(t, m, shows("members  a killed · b killed · c up to date"))

	press("b")
	await(t, m, func() bool { return m.scene.ours && m.scene.term > term })
	// It was away for the last writes, and takes part in those that follow.
	await(t, m, shows("members  a up to date · b killed · c up to date"))
	if m.scene.double > 0 {
		t.Errorf("two led at %d instants", m.scene.double)
	}
}
