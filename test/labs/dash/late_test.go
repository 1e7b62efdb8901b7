package dash_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed-ff2cb582/leader/test/labs/dash/chromium"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The dialog is one for all groups, and may be about another when an answer
// comes.
func TestAnAnswerThatComesLateIsNotForAnotherGroup(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	stand(t, nc, "reports", "worker-2")
	stand(t, nc, "billing", "bill-1")
	p := visit(browser, t, serve(t, server, "--allow-control").url)
	p.open("reports")
	p.open("billing")
	ask := func(group, op string) {
		const press = "[...document.querySelectorAll('tbody')].find(b => b.row?.name === %q).querySelector('[data-op=%s]').click()"
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(press, group, op)))
		p.until("document.getElementById('ask').open")
	}
	p.until("document.querySelectorAll('[data-op=step-down]:not(:disabled)').length === 2")
	// The answers wait until they are let through. The code that receives them
	// runs before a timer does.
	p.do(chromedp.Evaluate[chromedp.Void](`{
		const real = window.fetch;
		window.held = [];
		window.taken = 0;
		window.fetch = async (...what) => {
			const r = await real(...what), json = r.json.bind(r);
			r.json = async () => { const v = await json(); setTimeout(() => { window.taken++; }, 0); return v; };
			await new Promise((go) => held.push({ url: what[0], go }));
			return r;
		};
	}`))
	ask("reports", "transfer")
	p.do(
		chromedp.SendKeys(chromedp.CSS("#ask-successor"), "worker-2"),
		chromedp.Click(chromedp.CSS("#ask-go")),
	)
	p.until("held.some(h => h.url === 'api/control') && held.some(h => h.url === 'api/candidates?group=reports')")
	p.do(chromedp.Click(chromedp.CSS("#ask-cancel")))
	ask("billing", "transfer")
	let := eval[int](p, "held.splice(0).map(h => h.go()).length")
	p.until(fmt.Sprintf("taken >= %d", let))
	if said := eval[string](p, "document.getElementById('ask-outcome').textContent"); said != "" {
		t.Errorf("nothing was asked of billing, and the dialog shows: %s", said)
	}
	if eval[bool](p, "document.getElementById('ask-go').hidden || document.getElementById('ask-go').disabled") {
		t.Error("billing cannot be asked")
	}
	if proposed := eval[[]string](p, "[...document.querySelectorAll('#ask-candidates option')].map(o => o.value)"); len(proposed) > 0 {
		t.Errorf("proposed for billing: %q", proposed)
	}
}

// A path that came back is used, also if it has swallowed the request for the
// stream meanwhile, whose connection would last for a quarter of an hour.
func TestAPageWhoseRequestWasSwallowedAsksAgain(t *testing.T) {
	browser := chromium.Start(t)
	server, nc := bucket(t)
	stand(t, nc, "reports", "worker-1")
	u, err := url.Parse(serve(t, server).url)
	if err != nil {
		t.Fatal(err)
	}
	path := natslab.NewRelay(t, u.Host)
	p := visit(browser, t, "http://"+path.Addr()+"/")
	p.until(cell("reports", 2) + " === 'worker-1'")
	p.until("document.getElementById('link').innerText === 'live'")
	path.Hold(natslab.ToServer, natslab.ToClient)
	p.until("document.body.classList.contains('stale')")
	natslab.Await(natslab.Within(t), t, "the page asks for another stream", nil, path.UnderWay, func() string { return "" })
	path.Swallow()
	path.Resume()
	p.until("document.getElementById('link').innerText === 'live' && !document.body.classList.contains('stale')")
}
