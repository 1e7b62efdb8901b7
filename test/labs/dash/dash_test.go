// Package dash_test drives the page of leader dash as a person would, in a real
// Chromium.
package dash_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/test/labs/dash/chromium"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A tab is one page in a browser.
type tab struct {
	*testing.T

	ctx context.Context
}

// visit opens a page.
func visit(browser context.Context, t *testing.T, address string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // without a bound: the tab lives as long as this call's context
		t.Fatal(err)
	}
	p := &tab{t, ctx}
	p.do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(address))
	return p
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText")) // it is for the message
		p.Fatalf("%v\nthe page shows: %s", err, text)
	}
}

// until waits until an expression is true in the page, or in the one that
// follows it.
func (p *tab) until(expression string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	pause := time.NewTicker(30 * time.Millisecond)
	defer pause.Stop()
	for {
		// While the page is being left there is nothing to ask.
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText")) // it is for the message
			p.Fatalf("it did not come true: %s (%v)\nthe page shows: %s", expression, err, text)
		}
	}
}

// eval returns the value of an expression, a promise's when it has one.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return value
}

// cell is an expression for the text of a group's cell, 1 is the group's name.
func cell(group string, column int) string {
	return fmt.Sprintf("([...document.querySelectorAll('tr.row')].find(r => r.cells[0].innerText === %q)?.cells[%d].innerText || '')", group, column-1)
}

// open shows the details of a group.
func (p *tab) open(group string) {
	p.Helper()
	p.until(cell(group, 1) + " !== ''")
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("[...document.querySelectorAll('.open')].find(b => b.innerText === %q).click()", group)))
}

func TestALeaderChangeAppearsWithoutReload(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	first := stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	stand(t, nc, "billing", "bill-1")
	p := visit(browser, t, serve(t, server).url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	p.until(cell("billing", 2) + " === 'bill-1'")
	p.do(chromedp.Evaluate[chromedp.Void]("window.same = true"))
	if err := first.Transfer(t.Context(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	p.until(cell("reports", 2) + " === 'worker-2'")
	p.until("document.getElementById('news').innerText.includes('reports')")
	if !eval[bool](p, "window.same === true") {
		t.Error("the page was loaded again")
	}
	// The two terms are on the timeline, and in the table of the details.
	p.open("reports")
	p.until("document.querySelectorAll('.terms tbody tr').length === 2")
	if text := eval[string](p, "document.querySelector('.terms').innerText"); !strings.Contains(text, "transferred") && !strings.Contains(text, "unseen") {
		// An observer may not see a vacancy that lasted for less than a
		// millisecond.
		t.Errorf("the terms do not show why the first ended: %s", text)
	}
	// A group that appears later does, and its bar moves.
	stand(t, nc, "archive", "arc-1")
	p.until(cell("archive", 2) + " === 'arc-1'")
	p.until("Number([...document.querySelectorAll('[role=meter]')][0].getAttribute('aria-valuenow')) > 0")
}

func TestLateAndReconnectedPagesGetTheState(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	first := stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	s := serve(t, server)
	p := visit(browser, t, s.url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	s.stop()
	p.until("document.getElementById('link').innerText === 'reconnecting'")
	if err := first.Transfer(t.Context(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	again := serve(t, server, "--http", u.Host)
	p.until(cell("reports", 2) + " === 'worker-2'")
	p.until("document.getElementById('link').innerText === 'live'")
	late := visit(browser, t, again.url)
	late.until(cell("reports", 2) + " === 'worker-2'")
}

func TestALeaderStepsDownWhenThePageAsks(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	first := stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	p := visit(browser, t, serve(t, server, "--allow-control", "--by", "ann").url)
	p.open("reports")
	p.do(
		chromedp.Click(chromedp.CSS("[data-op=step-down]")),
		chromedp.SendKeys(chromedp.CSS("#ask-why"), "a new disk"),
		chromedp.Click(chromedp.CSS("#ask-go")),
	)
	p.until("document.getElementById('ask-outcome').innerText.startsWith('worker-2 leads.')")
	if id := first.LeaderID(); id != "worker-2" {
		t.Errorf("the candidates follow %q", id)
	}
	p.do(chromedp.Click(chromedp.CSS("#ask-cancel")))
	p.until("[...document.querySelectorAll('.terms td')].some(c => c.innerText.includes('stepped-down by ann: a new disk'))")

	// And hands over to the candidate that the page names; the candidates are
	// proposed.
	p.until(cell("reports", 2) + " === 'worker-2' && !document.querySelector('[data-op=transfer]').disabled")
	p.do(chromedp.Click(chromedp.CSS("[data-op=transfer]")))
	p.until("[...document.querySelectorAll('#ask-candidates option')].some(o => o.value === 'worker-1')")
	p.do(
		chromedp.SendKeys(chromedp.CSS("#ask-successor"), "worker-1"),
		chromedp.Click(chromedp.CSS("#ask-go")),
	)
	p.until("document.getElementById('ask-outcome').innerText.startsWith('worker-1 leads.')")
}

func TestAGroupIsPausedAndResumedByTheSameButton(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	e := stand(t, nc, "reports", "worker-1")
	p := visit(browser, t, serve(t, server, "--allow-control", "--by", "ann").url)
	p.open("reports")
	p.do(
		chromedp.Click(chromedp.CSS("[data-op=pause]")),
		chromedp.SendKeys(chromedp.CSS("#ask-why"), "a migration"),
		chromedp.Click(chromedp.CSS("#ask-go")),
	)
	p.until("document.getElementById('ask-outcome').innerText === 'It is paused. Nobody leads.'")
	if e.IsLeader() {
		t.Error("the leader still leads")
	}
	p.do(chromedp.KeyEvent("\r")) // the button that closes the dialog has the focus
	p.until(cell("reports", 2) + " === 'paused by ann: a migration'")
	p.until("document.activeElement.dataset.op === 'resume'")
	p.until("document.getElementById('n-vacant').innerText === '0' && document.getElementById('n-paused').innerText === '1'")
	if !eval[bool](p, "document.querySelector('[data-op=step-down]').disabled && document.querySelector('[data-op=transfer]').disabled") {
		t.Error("nobody leads, and somebody may be asked to leave")
	}
	p.do(chromedp.KeyEvent("\r"))
	p.until("document.getElementById('ask').open && document.getElementById('ask-text').innerText.includes('paused by ann: a migration')")
	p.do(chromedp.Click(chromedp.CSS("#ask-go")))
	p.until("document.getElementById('ask-outcome').innerText.startsWith('worker-1 leads after ')")
}

func TestAnInstanceIsDrainedAndUndrained(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	p := visit(browser, t, serve(t, server, "--allow-control", "--by", "ann").url)
	p.open("reports")
	p.do(chromedp.Click(chromedp.CSS("[data-op=drain]")))
	p.until("document.getElementById('ask-text').innerText.startsWith('worker-1 hands over the group that it leads')")
	p.do(
		chromedp.SendKeys(chromedp.CSS("#ask-why"), "a kernel"),
		chromedp.Click(chromedp.CSS("#ask-go")),
	)
	p.until("document.getElementById('ask-outcome').innerText.startsWith('The order is stored.')")
	p.do(chromedp.Click(chromedp.CSS("#ask-cancel")))
	p.until(cell("reports", 2) + " === 'worker-2'")
	p.until("document.getElementById('notice').innerText.includes('worker-1')")
	p.do(chromedp.Click(chromedp.CSS("#drains [data-op=undrain]")))
	p.until("document.getElementById('ask-text').innerText.includes('drained, by \"ann\" (\"a kernel\")')")
	p.do(chromedp.Click(chromedp.CSS("#ask-go")))
	p.until("document.getElementById('ask-outcome').innerText === 'It is not drained any more.'")
	p.until("document.getElementById('drains').hidden && document.getElementById('notice').hidden")
}

func TestTermsOfBeforeAreShownWhereAStreamKeepsThem(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	bare := visit(browser, t, serve(t, server).url)
	bare.until("document.getElementById('past').innerText.includes('leader history enable makes one')")
	keep(t, server)
	telling := func(cfg *leader.ElectionConfig) { cfg.Hooks = advisory.Hooks(nc, advisory.Options{}) }
	first := stand(t, nc, "reports", "worker-1", telling)
	second := stand(t, nc, "reports", "worker-2", telling)
	if err := first.Transfer(t.Context(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	await(t, second, func(info leader.LeaderInfo) bool { return info.ID == "worker-2" })
	awaitAdvisories(t, nc, 2, leader.EventPromoted)
	awaitAdvisories(t, nc, 1, leader.EventDemoted)
	p := visit(browser, t, serve(t, server).url)
	p.open("reports")
	p.until("document.querySelectorAll('.terms tbody tr').length === 2")
	p.until("document.getElementById('past').innerText.includes('LEADER_HISTORY_leaders')")
	p.until("[...document.querySelectorAll('.terms td')].some(c => c.innerText.includes('transferred'))")
}

func TestNothingIsCutOffOnANarrowScreen(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	e := stand(t, nc, "reports", "reports-worker-1.rack-17.example")
	stand(t, nc, "reports", "reports-worker-2.rack-17.example")
	put(t, nc, "a-group.with-a-long-name.in-eu-central-1", `{"id":"reports-worker-17.rack-9.example","token":"t","ttl":3600000}`)
	p := visit(browser, t, serve(t, server, "--allow-control").url)
	p.do(chromedp.EmulateViewport(360, 800))
	p.until(cell("reports", 2) + " === 'reports-worker-1.rack-17.example'")
	if err := e.Transfer(t.Context(), "reports-worker-2.rack-17.example"); err != nil {
		t.Fatal(err)
	}
	p.open("reports")
	p.until("document.querySelectorAll('.terms tbody tr').length === 2")
	p.until("document.querySelectorAll('.roll tbody tr').length === 2")
	// A long name and a tag beside it make a row of a few lines.
	p.until("Math.max(...[...document.querySelectorAll('tr.row')].map(r => r.offsetHeight)) < 240")
	for _, part := range []string{"html", "header", ".wide", ".roll", "tr.row", "tr.row .who", "tr.more > td"} {
		if cut := eval[int](p, fmt.Sprintf("(e => e.scrollWidth - e.clientWidth)(document.querySelector(%q))", part)); cut > 0 {
			t.Errorf("%s: %d pixels are cut off", part, cut)
		}
	}
	// Rows that are laid out again are still rows.
	if roles := eval[string](p, "[...document.querySelectorAll('.terms, .terms tbody, .terms tbody tr:first-child, .terms tbody tr:first-child td')].map(e => e.role).join(' ')"); roles != "table rowgroup row cell cell cell cell cell" {
		t.Errorf("roles %q", roles)
	}
}

// The rights are those listed in docs/operate/permissions.md.
func TestAnObserverServesThePageAndReadsAHistoryIfItMay(t *testing.T) {
	browser := chromium.Start(t)
	looks := []string{"$JS.API.STREAM.INFO.KV_leaders", "$JS.API.DIRECT.GET.KV_leaders"}
	reads := []string{
		"$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.LEADER_HISTORY_leaders", "$JS.API.CONSUMER.CREATE.LEADER_HISTORY_leaders.>",
		"$JS.API.CONSUMER.INFO.LEADER_HISTORY_leaders.>", "$JS.API.CONSUMER.MSG.NEXT.LEADER_HISTORY_leaders.>",
		"$JS.API.CONSUMER.DELETE.LEADER_HISTORY_leaders.>",
	}
	hears := []string{"leader.leaders.>", "_INBOX.>"}
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("observer", looks, hears),
		natslab.User("historian", slices.Concat(looks, reads), hears)))
	nc := natslab.Connect(t, srv.URL(), nats.UserInfo("admin", "admin"))
	ensure(t, nc, 1)
	keep(t, srv.URL(), "--user", "admin", "--password", "admin")
	e := stand(t, nc, "reports", "worker-1", func(cfg *leader.ElectionConfig) { cfg.Hooks = advisory.Hooks(nc, advisory.Options{}) })
	stand(t, nc, "reports", "worker-2")
	if err := e.Transfer(t.Context(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	awaitAdvisories(t, nc, 1, leader.EventDemoted)
	for user, want := range map[string]string{"observer": "Earlier ones are not known", "historian": "LEADER_HISTORY_leaders"} {
		p := visit(browser, t, serve(t, srv.URL(), "--user", user, "--password", user).url)
		p.until(fmt.Sprintf("document.getElementById('past').innerText.includes(%q)", want))
		p.until(cell("reports", 2) + " === 'worker-2'")
		p.open("reports")
		p.until(fmt.Sprintf("document.querySelectorAll('.terms tbody tr').length === %d", map[string]int{"observer": 1, "historian": 2}[user]))
		p.until("document.getElementById('notice').hidden")
	}
}

// keep has a stream keep the history.
func keep(t *testing.T, server string, flags ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"history", "enable", "--server", server}, flags...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// awaitAdvisories waits until the history has so many advisories of an event.
func awaitAdvisories(t *testing.T, nc *nats.Conn, n uint64, event leader.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	js := natslab.JetStream(t, nc)
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	subject := advisory.Subject("leaders", event, "reports")
	for {
		s, err := js.Stream(ctx, "LEADER_HISTORY_leaders")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject)); err == nil && info.State.Subjects[subject] >= n {
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Fatalf("no %d × %s in the history", n, event)
		}
	}
}

// order is a script that asks for what no button asks for. Its value is the
// status of the answer.
const order = `fetch("/api/control", {method: "POST", headers: {"Content-Type": "application/json", "Leader-Dash": "1"},
	body: JSON.stringify({op: "step-down", group: "reports", term: "%d"})}).then(r => r.status)`

func TestWithoutAllowControlNobodyIsAskedToLeave(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	e := stand(t, nc, "reports", "worker-1")
	p := visit(browser, t, serve(t, server).url)
	p.open("reports")
	p.until("document.querySelectorAll('.terms tbody tr').length === 1")
	if n := eval[int](p, "document.querySelectorAll('[data-op]').length"); n != 0 {
		t.Errorf("%d buttons", n)
	}
	if code := eval[int](p, fmt.Sprintf(order, e.Term().Number)); code != http.StatusForbidden {
		t.Errorf("status %d, want 403", code)
	}
	if !e.IsLeader() {
		t.Error("the leader left")
	}
}

func TestOtherSitesCannotSteer(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	e := stand(t, nc, "reports", "worker-1")
	s := serve(t, server, "--allow-control")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<h1>other</h1>")
	}))
	t.Cleanup(other.Close)
	body := fmt.Sprintf(`{"op":"step-down","group":"reports","term":"%d"}`, e.Term().Number)
	for name, script := range map[string]string{
		"simple request":   `fetch("%sapi/control", {method: "POST", mode: "no-cors", body: '%s'}).then(() => "sent", e => "refused")`,
		"with credentials": `fetch("%sapi/control", {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": "text/plain"}, body: '%s'}).then(() => "sent", e => "refused")`,
		"with the header":  `fetch("%sapi/control", {method: "POST", headers: {"Content-Type": "application/json", "Leader-Dash": "1"}, body: '%s'}).then(() => "sent", e => "refused")`,
		"by beacon":        `Promise.resolve(String(navigator.sendBeacon("%sapi/control", new Blob(['%s'], {type: "text/plain"}))))`,
	} {
		for _, from := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
			p := visit(browser, t, from)
			t.Logf("%s from %s: %s", name, from, eval[string](p, fmt.Sprintf(script, s.url, body)))
		}
	}
	// An accepted request would have been obeyed before this, because requests
	// are answered in order.
	p := visit(browser, t, s.url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	if !e.IsLeader() {
		t.Error("the leader left")
	}
	// Nor can they look: otherwise another site could read the answer.
	if got := eval[string](visit(browser, t, other.URL), fmt.Sprintf(`fetch(%q).then(() => "read", e => "refused")`, s.url)); got != "refused" {
		t.Errorf("another site has %s the page", got)
	}
	// The page may not be framed, under whose buttons a click would land.
	p = visit(browser, t, other.URL)
	if framed := eval[bool](p, fmt.Sprintf(`new Promise(done => { const f = document.createElement("iframe"); f.src = %q;
		f.onload = () => done(f.contentWindow.length !== 0 || f.contentDocument !== null); document.body.append(f) })`, s.url)); framed {
		t.Error("the page was framed")
	}
}

func TestHostileRecordsAreInert(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	const evil = `<img src=x onerror=window.hurt=1>`
	put(t, nc, "evil", `{"id":"`+evil+`","token":"t","ttl":3600000,"address":"javascript:window.hurt=1","version":"<script>window.hurt=1</script>",
		"meta":{"`+evil+`":"</td></tr></table><svg onload=window.hurt=1>","__proto__":"x"}}`)
	vacate(t, nc, "gone", `{"reason":"`+evil+`","by":"`+evil+`","why":"<script>window.hurt=1</script>","successor":"`+evil+`"}`)
	put(t, nc, "nonsense", `{"id":`)
	put(t, nc, "__proto__", `{"id":"constructor","token":"t","ttl":3600000}`)
	s := serve(t, server, "--allow-control")
	p := visit(browser, t, s.url)
	p.do(chromedp.Evaluate[chromedp.Void]("document.addEventListener('securitypolicyviolation', e => { window.violated = e.violatedDirective })"))
	const bare = `.replace(/\s*unconfirmed$/, "")` // nobody renews them
	p.until(cell("evil", 2) + bare + " === " + fmt.Sprintf("%q", evil))
	p.until(cell("__proto__", 2) + bare + " === 'constructor'")
	p.until(cell("nonsense", 2) + ".includes('overwritten')")
	p.until(cell("nonsense", 4) + " === '–'") // 0 is the number of no term
	p.open("evil")
	p.open("gone")
	// Content that arrives later is treated like the content that was there.
	vacate(t, nc, "evil", `{"reason":"resigned","by":"`+evil+`","why":"`+evil+`"}`)
	p.until(cell("evil", 2) + ".includes('onerror')")
	p.until("document.getElementById('news').innerText.includes('onerror')")
	for what, none := range map[string]string{
		"a script of a record has run":            "window.hurt === undefined",
		"a record has become markup":              "document.querySelectorAll('main img, main script, main svg svg').length === 0",
		"a record has become a link":              "document.querySelectorAll('main a').length === 0",
		"the page's own policy has been violated": "window.violated === undefined",
	} {
		if !eval[bool](p, none) {
			t.Error(what)
		}
	}
}

func TestAThousandGroupsStayUsable(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	const many = 1000
	for i := range many {
		put(t, nc, fmt.Sprintf("job.%04d", i), fmt.Sprintf(`{"id":"worker-%d","token":"t","ttl":3600000}`, i%7))
	}
	p := visit(browser, t, serve(t, server).url)
	p.until(fmt.Sprintf("document.getElementById('n-all').innerText === '%d'", many))
	const shown = "[...document.querySelectorAll('tbody')].filter(b => b.row && !b.classList.contains('gone')).length"
	p.do(chromedp.Evaluate[chromedp.Void]("document.body.focus()"), chromedp.KeyEvent("/"), chromedp.KeyEvent("\x1b"), chromedp.KeyEvent("0417"))
	p.until(shown + " === 1")
	took := eval[float64](p, `(() => { const f = document.getElementById("filter"), begin = performance.now();
		for (const word of ["0", "07", "worker-3", ""]) { f.value = word; f.dispatchEvent(new Event("input")); document.body.offsetHeight }
		return (performance.now() - begin) / 4 })()`)
	t.Logf("filtering %d groups takes %.0f ms", many, took)
	if took > 5000 { // it takes some 30
		t.Errorf("filtering takes %.0f ms", took)
	}
	if got := eval[int](p, shown); got != many {
		t.Errorf("%d groups are shown without a filter", got)
	}
}

func TestThePageWorksByKeyboardAndHasNames(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	p := visit(browser, t, serve(t, server, "--allow-control").url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	// From the filter by Tab: four chips, the order, the span, the group; Enter
	// opens it.
	p.do(chromedp.KeyEvent("/"))
	p.until("document.activeElement.id === 'filter'")
	p.do(chromedp.KeyEvent("\x1b")) // the protocol types the key all the same
	for range 7 {
		p.do(chromedp.KeyEvent("\t"))
	}
	p.until("document.activeElement.innerText === 'reports'")
	p.do(chromedp.KeyEvent("\r"))
	p.until("document.activeElement.getAttribute('aria-expanded') === 'true'")
	p.do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	p.until("document.getElementById('ask').open && document.getElementById('ask').contains(document.activeElement)")
	p.do(chromedp.KeyEvent("\x1b"))
	p.until("!document.getElementById('ask').open")
	unnamed := eval[[]string](p, `[...document.querySelectorAll("button, input, select, [role=img], [role=meter], table, dialog")].filter(e =>
		!e.innerText?.trim() && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") && !e.labels?.length).map(e => e.outerHTML)`)
	if len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
}

func TestATokenIsAskedForOnce(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	const token = "correct-horse-battery"
	s := serve(t, server, "--http", "0.0.0.0:0", "--dash-token", token)
	p := visit(browser, t, s.url)
	p.until("location.pathname === '/login'")
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), "wrong-horse-battery\r"))
	p.until("location.search === '?wrong'")
	p.until("document.querySelector('[role=alert]').innerText.includes('not the token')")
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"))
	p.until("location.pathname === '/'")
	p.until(cell("reports", 2) + " === 'worker-1'")
	if eval[bool](p, "document.cookie !== ''") {
		t.Error("scripts can read the cookie")
	}
	// When the command is started again, the page asks again.
	s.stop()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, server, "--http", "0.0.0.0:"+u.Port(), "--dash-token", token)
	p.until("location.pathname === '/login'")
}

func TestThePageFollowsACluster(t *testing.T) {
	browser := chromium.Start(t)
	cluster := natslab.StartCluster(t, 3)
	nc := cluster.Connect(t)
	ensure(t, nc, 3)
	stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	p := visit(browser, t, serve(t, cluster.URL(), "--allow-control", "--timeout", "30s").url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	p.open("reports")
	p.do(chromedp.Click(chromedp.CSS("[data-op=step-down]")), chromedp.Click(chromedp.CSS("#ask-go")))
	p.until("document.getElementById('ask-outcome').innerText.startsWith('worker-2 leads.')")
	p.until(cell("reports", 2) + " === 'worker-2'")
}

func TestTheExporterFollowsACluster(t *testing.T) {
	cluster := natslab.StartCluster(t, 3)
	nc := cluster.Connect(t)
	ensure(t, nc, 3)
	stand(t, nc, "reports", "worker-1")
	s := launch(t, "exporter", "--server", cluster.URL(), "--http", "127.0.0.1:0", "--timeout", "30s")
	natslab.Eventually(t, "the exporter reports the leader", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if !strings.Contains(string(page), `leader="worker-1"`) {
			return fmt.Errorf("it says:\n%s", page)
		}
		return nil
	})
}
