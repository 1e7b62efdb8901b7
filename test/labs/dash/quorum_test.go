package dash_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/test/labs/dash/chromium"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMembersOfAQuorumAreShownAndMarkupInTheirNamesIsNot(t *testing.T) {
	browser := chromium.Start(t)
	const evil = `<b>c</b>`
	var servers []*natslab.Server
	var parts []string
	for _, name := range []string{"a", "b", evil} {
		srv := natslab.Start(t)
		ensure(t, natslab.Connect(t, srv.URL()), 1)
		servers = append(servers, srv)
		parts = append(parts, "m="+url.PathEscape(name)+"="+srv.URL()+"/leaders")
	}
	address := "quorum://?" + strings.Join(parts, "&")
	st, err := store.Open(t.Context(), address, quorumstore.Driver(natsstore.Driver()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "reports", InstanceID: "worker-1", TTL: 10 * time.Minute, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	await(t, e, func(info leader.LeaderInfo) bool { return info.ID != "" })
	p := visit(browser, t, launch(t, "dash", "--store", address, "--http", "127.0.0.1:0").url)
	p.open("reports")
	const state = "([...document.querySelectorAll('.members tbody tr')][%]?.cells[3].innerText || '')"
	is := func(row, text string) { p.until(strings.Replace(state, "%", row, 1) + ".startsWith('" + text + "')") }
	is("1", "up to date")
	servers[1].Stop()
	is("1", "does not answer: ")
	is("0", "up to date")
	if *screenshots != "" {
		p.save("members")
		p.do(chromedp.EmulateViewport(390, 844))
		p.save("members-narrow")
	}
	if got := eval[string](p, "document.querySelectorAll('.members tbody tr')[2].cells[0].innerText"); got != evil {
		t.Errorf("the third member is named %q, want %q", got, evil)
	}
}
