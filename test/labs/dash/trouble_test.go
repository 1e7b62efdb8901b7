package dash_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed-ff2cb582/leader/test/labs/dash/chromium"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A term that begins while its row is open gets no message before it ends, and
// lasts all the same.
func TestATermThatBeganUnderAnOpenRowLasts(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	first := stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	p := visit(browser, t, serve(t, server).url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	p.open("reports")
	if err := first.Transfer(t.Context(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	const lasts = "document.querySelector('.terms tbody tr:first-child td:nth-child(2)').innerText"
	p.until(cell("reports", 2) + " === 'worker-2' && parseFloat(" + lasts + ") >= 2 && " + lasts + ".endsWith(' s')")
	p.until("parseFloat(" + cell("reports", 3) + ".split(' · ')[1]) >= 2") // and so does the age of the change
}

func TestARecordOfUnknownAgeIsUnconfirmed(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	put(t, nc, "reports", `{"id":"worker-1","token":"t","ttl":3600000,"term":1}`)
	stand(t, nc, "billing", "bill-1")
	p := visit(browser, t, serve(t, server).url)
	p.until(cell("reports", 2) + ".replace(/\\s+/g, ' ') === 'worker-1 unconfirmed'")
	p.until(cell("reports", 3) + ".startsWith('before ')")
	p.until(cell("reports", 5) + ".startsWith('≤ ')")
	p.until(cell("billing", 2) + " === 'bill-1'") // it has renewed
	p.open("reports")
	p.until("document.querySelector('.terms tbody td:nth-child(1)').innerText.startsWith('before ')")
	// Its renewal confirms it.
	put(t, nc, "reports", `{"id":"worker-1","token":"t","ttl":3600000,"term":1,"renewal":1}`)
	p.until(cell("reports", 2) + " === 'worker-1'")
}

func TestTroubleComesFirst(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	for _, group := range []string{"a", "b", "y", "z"} {
		put(t, nc, group, `{"id":"worker-1","token":"t","ttl":3600000,"term":1,"renewal":1}`)
	}
	put(t, nc, "_ctl.y", `{"paused":{"by":"ann"}}`)
	vacate(t, nc, "y", `{"token":"t","term":1,"reason":"paused","by":"ann"}`)
	p := visit(browser, t, serve(t, server).url)
	const names = "[...document.querySelectorAll('tr.row')].map(r => r.cells[0].innerText).join(' ')"
	p.until(names + " === 'y a b z'")
	vacate(t, nc, "z", `{"token":"t","term":1,"reason":"resigned"}`)
	p.until(names + " === 'z y a b'")
	p.until("document.title.startsWith('(1) ')") // nobody is to lead what is paused
	p.do(chromedp.Evaluate[chromedp.Void]("(o => { o.value = 'name'; o.dispatchEvent(new Event('change')) })(document.getElementById('order'))"))
	p.until(names + " === 'a b y z'")
	// A row that somebody reads stays where it is.
	p.do(chromedp.Evaluate[chromedp.Void]("(o => { o.value = 'trouble'; o.dispatchEvent(new Event('change')) })(document.getElementById('order'))"))
	p.open("b")
	vacate(t, nc, "b", `{"token":"t","term":1,"reason":"resigned"}`)
	vacate(t, nc, "a", `{"token":"t","term":1,"reason":"resigned"}`)
	p.until(names + " === 'a z y b'")
}

func TestAPageReportsASilentServer(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	s := serve(t, server, "--allow-control")
	p := visit(browser, t, s.url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	p.open("reports")
	p.until("document.querySelectorAll('[data-op]:disabled').length === 0")
	s.stop()
	p.until("document.body.classList.contains('stale') && !document.getElementById('notice').hidden")
	p.until("document.getElementById('notice').innerText.startsWith('This page is out of date')")
	p.until(cell("reports", 5) + " === '?' && document.title.startsWith('(?) ')")
	p.until("document.querySelectorAll('[data-op]:not(:disabled)').length === 0")
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, server, "--allow-control", "--http", u.Host)
	p.until("!document.body.classList.contains('stale') && document.getElementById('notice').hidden")
	p.until("document.querySelectorAll('[data-op]:disabled').length === 0 && " + cell("reports", 5) + " !== '?'")
}

// If the command receives no news, the page cannot know the state: leases that
// run out meanwhile mean nothing.
func TestAPageWhoseServerIsGoneKnowsNothing(t *testing.T) {
	browser := chromium.Start(t)
	srv := natslab.Start(t)
	nc := natslab.Connect(t, srv.URL())
	ensure(t, nc, 1)
	stand(t, nc, "reports", "worker-1")
	p := visit(browser, t, serve(t, srv.URL()).url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	srv.Stop()
	p.until("document.body.classList.contains('stale')")
	p.until("document.getElementById('notice').innerText.includes('has lost its NATS server')")
	p.until("document.getElementById('link').innerText === 'NATS is away'")
	srv.Restart()
	p.until("!document.body.classList.contains('stale') && document.getElementById('link').innerText === 'live'")
}

func TestAGroupHasAnAddress(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	stand(t, nc, "billing", "bill-1")
	const token = "correct-horse-battery"
	s := serve(t, server, "--http", "0.0.0.0:0", "--dash-token", token)
	// It outlives the question for the token, also a wrong answer to it.
	p := visit(browser, t, s.url+"?group=reports")
	p.until("location.pathname === '/login'")
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), "wrong-horse-battery\r"))
	p.until("document.querySelector('.notice')?.innerText.includes('not the token')")
	p.do(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"))
	p.until("location.pathname === '/'")
	const opened = "[...document.querySelectorAll('.open[aria-expanded=true]')].map(b => b.innerText).join()"
	p.until(opened + " === 'reports'")
	// Anyone with the right to look sees the candidates.
	p.until("[...document.querySelectorAll('.roll tbody tr')].map(r => r.cells[0].innerText + ' ' + r.cells[1].innerText).join() === 'worker-1 leader,worker-2 follower'")
	p.open("reports")
	p.until("location.search === '' && " + opened + " === ''")
	p.open("billing")
	p.until("location.search === '?group=billing'")
	// And one that does not exist is not passed over in silence.
	q := visit(browser, t, s.url+"?group=reprots")
	q.until("document.getElementById('notice').innerText.includes('The group reprots of this page')")
}

func TestTheTimelinesHaveTimes(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	p := visit(browser, t, serve(t, server).url)
	p.until(cell("reports", 2) + " === 'worker-1'")
	for _, span := range []int{120_000, 3_600_000, 86_400_000} {
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(s => { s.value = '%d'; s.dispatchEvent(new Event('change')) })(document.getElementById('span'))", span)))
		marks := eval[[]string](p, "[...document.querySelectorAll('th .axis span')].map(s => s.innerText)")
		if n := len(marks); n < 3 || n > 7 || marks[n-1] != "now" {
			t.Errorf("over %d ms: %q", span, marks)
		}
		// They are full minutes, and appear above the marks in the lines.
		if m := marks[0]; span > 120_000 && !strings.HasSuffix(m, "0") && !strings.HasSuffix(m, "5") {
			t.Errorf("over %d ms: %q", span, marks)
		}
		off := eval[float64](p, `(() => { const a = document.querySelector("th .axis span").getBoundingClientRect(), middle = (a.left + a.right) / 2;
			return Math.min(...[...document.querySelectorAll(".line .tick")].map(r => Math.abs(r.getBoundingClientRect().left - middle))) })()`)
		if off > 4 {
			t.Errorf("over %d ms: a label is %.1f pixels off its mark", span, off)
		}
	}
}

// A permanently forgotten group is not trouble: it is shown to a visitor who
// asks for such groups, or for this one.
func TestForgottenGroupsAreShownWhenAskedFor(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	for _, group := range []string{"a", "old", "z"} {
		put(t, nc, group, `{"id":"worker-1","token":"t","ttl":3600000,"term":1,"renewal":1}`)
	}
	vacate(t, nc, "old", `{"token":"t","term":1,"reason":"forgotten","by":"ann"}`)
	s := serve(t, server)
	p := visit(browser, t, s.url)
	const names = "[...document.querySelectorAll('tbody:not(.gone) > tr.row')].map(r => r.cells[0].innerText).join(' ')"
	const count = "['all', 'vacant', 'paused', 'forgotten'].map(n => document.getElementById('n-' + n).innerText).join(' ')"
	show := func(what string) {
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector('[data-show=%s]').click()", what)))
	}
	p.until(names + " === 'a z' && " + count + " === '2 0 0 1' && !document.title.startsWith('(')")
	show("vacant")
	p.until(names + " === ''")
	show("forgotten")
	p.until(names + " === 'old'")
	show("all")
	p.until(names + " === 'a z'")
	visit(browser, t, s.url+"?group=old").until(names + " === 'a z old'") // by its address
	// It returns.
	put(t, nc, "old", `{"id":"worker-2","token":"u","ttl":3600000,"term":2,"renewal":1}`)
	p.until(names + " === 'a old z' && " + count + " === '3 0 0 0'")
}
