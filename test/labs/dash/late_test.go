package dash_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed-ff2cb582/leader/test/labs/dash/chromium"
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
	// The answers wait until they are let through. What takes them in goes on
	// before a timer does.
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
	p.until("held.some(h => h.url === '/api/control') && held.some(h => h.url === '/api/candidates?group=reports')")
	p.do(chromedp.Click(chromedp.CSS("#ask-cancel")))
	ask("billing", "transfer")
	let := eval[int](p, "held.splice(0).map(h => h.go()).length")
	p.until(fmt.Sprintf("taken >= %d", let))
	if said := eval[string](p, "document.getElementById('ask-outcome').textContent"); said != "" {
		t.Errorf("nothing was asked of billing, and the dialog says: %s", said)
	}
	if eval[bool](p, "document.getElementById('ask-go').hidden || document.getElementById('ask-go').disabled") {
		t.Error("billing cannot be asked")
	}
	if proposed := eval[[]string](p, "[...document.querySelectorAll('#ask-candidates option')].map(o => o.value)"); len(proposed) > 0 {
		t.Errorf("proposed for billing: %q", proposed)
	}
}

// A swallower is a path to a server that can begin to swallow all that it is
// given, without an end of any connection.
type swallower struct {
	ln     net.Listener
	target string
	stuck  chan struct{} // closed when something was swallowed

	mu         sync.Mutex
	swallowing bool
	conns      map[*swallowed]bool
}

type swallowed struct {
	net.Conn

	deaf, asked bool // by mu of the swallower
}

func newSwallower(t *testing.T, target string) *swallower {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &swallower{ln: ln, target: target, stuck: make(chan struct{}), conns: map[*swallowed]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(t.Context(), conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.each(func(c *swallowed) { _ = c.Close() })
		serving.Wait()
	})
	return s
}

func (s *swallower) each(f func(*swallowed)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		f(c)
	}
}

// swallow lets nothing pass any more.
func (s *swallower) swallow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swallowing = true
	for c := range s.conns {
		c.deaf = true
	}
}

// heal lets what is new pass. What has swallowed a request stays as it is, and
// the rest of the old connections end.
func (s *swallower) heal() {
	s.each(func(c *swallowed) {
		if c.deaf && !c.asked {
			_ = c.Close()
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swallowing = false
}

// passes reports whether what came may be passed on.
func (s *swallower) passes(c *swallowed, asking bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.deaf && asking && !c.asked {
		c.asked = true
		select {
		case <-s.stuck:
		default:
			close(s.stuck)
		}
	}
	return !c.deaf
}

func (s *swallower) serve(ctx context.Context, conn net.Conn) {
	c := &swallowed{Conn: conn}
	s.mu.Lock()
	c.deaf = s.swallowing
	s.conns[c] = true
	s.mu.Unlock()
	defer func() { _ = c.Close() }()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", s.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var answers sync.WaitGroup
	answers.Go(func() { s.pass(c, c, server, false) })
	s.pass(c, server, c, true)
	_ = server.Close()
	answers.Wait()
}

func (s *swallower) pass(c *swallowed, to io.Writer, from io.Reader, asking bool) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && s.passes(c, asking) {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
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
	path := newSwallower(t, u.Host)
	p := visit(browser, t, "http://"+path.ln.Addr().String()+"/")
	p.until(cell("reports", 2) + " === 'worker-1'")
	p.until("document.getElementById('link').innerText === 'live'")
	path.swallow()
	p.until("document.body.classList.contains('stale')")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-path.stuck:
	case <-ctx.Done():
		t.Fatal("the page asks for no other stream")
	}
	path.heal()
	p.until("document.getElementById('link').innerText === 'live' && !document.body.classList.contains('stale')")
}
