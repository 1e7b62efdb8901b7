package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
)

func TestAnAddressIsAHostWithAPortOrAURL(t *testing.T) {
	for _, c := range []struct {
		recorded string
		port     int
		want     string // "" for none
	}{
		{"db-1:5432", 0, "db-1:5432"},
		{"db-1:80", 5432, "db-1:5432"},
		{"db-1", 5432, "db-1:5432"},
		{"http://db-1/path", 0, "db-1:80"},
		{"https://db-1", 0, "db-1:443"},
		{"https://db-1:8443", 5432, "db-1:5432"},
		{"tcp://[::1]:7", 0, "[::1]:7"},
		{"[::1]:7", 0, "[::1]:7"},
		{"::1", 7, "[::1]:7"},
		{"[::1]", 7, "[::1]:7"},
		{"", 5432, ""},
		{":80", 5432, ""},
		{"0.0.0.0:80", 0, ""},
		{"http://[::]", 0, ""},
		{"::ffff:0.0.0.0", 5432, ""},
		{"db-1", 0, ""},
		{"db-1:", 0, ""},
		{"postgres://db-1", 0, ""},
		{"http://%zz", 80, ""},
	} {
		got, err := addressOf(c.recorded, c.port)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q with port %d: %q, %v, want %q", c.recorded, c.port, got, err, c.want)
		}
	}
}

// A routeLab is a route with the states that an observer reports.
func newTestRoute(t *testing.T, grace time.Duration) *route {
	t.Helper()
	p, err := newProxy("g", Options{Grace: grace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRoute(p)
	r.lead(leader.LeaderInfo{Group: "g"})
	return r
}

func led(id string, term uint64, lease time.Duration) leader.LeaderInfo {
	return leader.LeaderInfo{Group: "g", ID: id, Term: term, Until: time.Now().Add(lease)}
}

func TestALeaderDeposedDuringTheDialGetsNoConnection(t *testing.T) {
	for name, next := range map[string]leader.LeaderInfo{
		"another leads":       led("b", 2, time.Hour),
		"it leads a new term": led("a", 2, time.Hour),
		"nobody leads":        {Group: "g", Term: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestRoute(t, time.Hour)
			r.lead(led("a", 1, time.Hour))
			target, _, changed := r.current()
			if target == nil || target.ID != "a" {
				t.Fatalf("%+v leads", target)
			}
			r.lead(next)
			select {
			case <-changed:
			default:
				t.Error("the change is not reported")
			}
			if target.over.Err() == nil {
				t.Error("a try to connect goes on")
			}
			if r.join(&link{target: target}) {
				t.Error("a connection was added to a former leader")
			}
			r.close()
		})
	}
}

// A deposing listener has another lead when the dialer asks for its address,
// and the dialer does not hear of it.
type deposing struct {
	net.Listener
	depose func()
}

func (d deposing) Addr() net.Addr {
	d.depose()
	return d.Listener.Addr()
}

func TestAConnectionThatWasMadeMeanwhileIsNotUsed(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a fixture
	r := newTestRoute(t, 0)
	a := led("a", 1, time.Hour)
	a.Address = ln.Addr().String()
	r.lead(a)
	own, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close() //nolint:errcheck // a fixture
	s := &server{Proxy: r.Proxy, route: r, ln: deposing{own, func() { r.now = nil }}}
	if l, _, err := s.try(t.Context(), nil); l != nil || !errors.Is(err, errNoLeader) {
		t.Errorf("%v, %v: it was deposed while it was connected to", l, err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a fixture
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the former leader sees %v, want a reset", err)
	}
}

func TestATryToConnectEndsWithTheTerm(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a fixture
	r := newTestRoute(t, 0)
	a := led("a", 1, time.Hour)
	a.Address = ln.Addr().String()
	r.lead(a)
	r.now.depose() // before the connection is made
	s := &server{Proxy: r.Proxy, route: r, ln: at{&net.UnixAddr{}}}
	if l, _, err := s.try(t.Context(), nil); l != nil || err == nil {
		t.Errorf("%v, %v: its term is over", l, err)
	}
	if n := r.count.failures.Load(); n != 0 {
		t.Errorf("%d failures are counted, of which the leader had none", n)
	}
}

// The address shows what is wrong, and nobody is connected to.
func TestALeaderThatCannotBeConnectedToIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	r := newTestRoute(t, 0)
	r.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := &server{Proxy: r.Proxy, route: r, ln: at{&net.UnixAddr{}}}
	for term := range uint64(2) {
		a := led("a", term+1, time.Hour)
		a.Address = "db-1"
		r.lead(a)
		for range 3 {
			if l, _, err := s.try(t.Context(), nil); l != nil || err == nil {
				t.Fatalf("%v, %v", l, err)
			}
		}
	}
	warnings := strings.Count(log.String(), "cannot connect to the leader")
	if n := r.count.failures.Load(); n != 6 || warnings != 2 || !strings.Contains(log.String(), "has no port") {
		t.Errorf("%d failures, want 6, and %d warnings, want one in a term:\n%s", n, warnings, &log)
	}
}

// A swallowing listener holds up each try to connect until meanwhile has
// returned, as one does to a host that drops what it is sent. The dialer asks
// for the address before it connects.
type swallowing struct {
	at

	meanwhile func()
}

func (l swallowing) Addr() net.Addr {
	l.meanwhile()
	return l.at.Addr()
}

// A client may have waited for long enough before the dialer has.
func TestALeaderThatSwallowsWhatItIsSentFailsWhenTheClientsWaitEnds(t *testing.T) {
	const wait = time.Second // less than DefaultDialTimeout
	for name, c := range map[string]struct {
		meanwhile func(r *route, stop func())
		serves    time.Duration
		failures  uint64
	}{
		"the wait ends":    {func(*route, func()) {}, time.Hour, 1},
		"another leads":    {func(r *route, _ func()) { r.lead(led("b", 2, time.Hour)) }, time.Hour, 0},
		"nobody leads":     {func(r *route, _ func()) { r.lead(leader.LeaderInfo{Group: "g"}) }, time.Hour, 0},
		"the proxy ends":   {func(_ *route, stop func()) { stop() }, time.Hour, 0},
		"its time is over": {func(*route, func()) {}, wait / 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				r := newTestRoute(t, 0)
				r.opts.Logger, r.opts.Wait = slog.New(slog.NewTextHandler(&log, nil)), wait
				a := led("a", 1, time.Hour)
				a.Address = "127.0.0.1:1"
				r.lead(a)
				ctx, stop := context.WithTimeout(t.Context(), c.serves)
				defer stop()
				idle, far := net.Pipe()
				defer far.Close() //nolint:errcheck // a fixture
				s := &server{Proxy: r.Proxy, route: r, ln: swallowing{at{&net.UnixAddr{}}, func() {
					c.meanwhile(r, stop)
					time.Sleep(2 * wait)
				}}}
				if l, err := s.connect(ctx, &readahead{conn: idle}); l != nil || err == nil {
					t.Fatalf("%v, %v", l, err)
				}
				warned := strings.Count(log.String(), "cannot connect to the leader")
				if n := r.count.failures.Load(); n != c.failures || warned != int(n) {
					t.Errorf("%d failures, want %d:\n%s", n, c.failures, &log)
				}
			})
		})
	}
}

// An at is a listener at an address.
type at struct{ addr net.Addr }

func (a at) Addr() net.Addr          { return a.addr }
func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (at) Close() error              { return nil }

func TestAProxyKnowsItsOwnAddresses(t *testing.T) {
	tcp := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	cases := []struct {
		own net.Addr
		to  string
		is  bool
	}{
		{tcp("127.0.0.1:80"), "127.0.0.1:80", true},
		{tcp("127.0.0.1:80"), "[::ffff:127.0.0.1]:80", true},
		{tcp("127.0.0.1:80"), "127.0.0.1:81", false},
		{tcp("127.0.0.1:80"), "127.0.0.2:80", false},
		{tcp("127.0.0.1:80"), "[::1]:80", false},
		{tcp("127.0.0.1:80"), "0.0.0.0:80", true},
		{tcp("192.0.2.1:80"), "127.0.0.1:80", false},
		{tcp("192.0.2.1:80"), "192.0.2.1:80", true},
		{tcp("[fe80::1%lo]:80"), "[fe80::1%lo]:80", true},
		{tcp("0.0.0.0:80"), "127.0.0.2:80", true},
		{tcp("[::]:80"), "127.0.0.1:80", true},
		{tcp("[::]:80"), "[::]:80", true},
		{tcp("[::]:80"), "[::]:81", false},
		{tcp("0.0.0.0:80"), "192.0.2.1:80", false}, // another host: RFC 5737
		{tcp("0.0.0.0:80"), "db-1:80", false},      // no address: the dialer reports that
		{&net.UnixAddr{Name: "/s", Net: "unix"}, "127.0.0.1:80", false},
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			ip, _ := netip.AddrFromSlice(n.IP)
			cases = append(cases, struct {
				own net.Addr
				to  string
				is  bool
			}{tcp("[::]:80"), netip.AddrPortFrom(ip.Unmap(), 80).String(), true})
		}
	}
	for _, c := range cases {
		err := (&server{ln: at{c.own}}).refuseItself(t.Context(), "tcp", c.to, nil)
		if errors.Is(err, errLoop) != c.is || err != nil && !c.is {
			t.Errorf("a proxy at %v that is sent to %s: %v", c.own, c.to, err)
		}
	}
}

func TestExpiredLeaseIsNotDialedWithoutNews(t *testing.T) {
	r := newTestRoute(t, 0)
	r.lead(led("a", 1, -time.Nanosecond))
	if target, _, _ := r.current(); target != nil {
		t.Error("its lease is over")
	}
	_, _, changed := r.current()
	r.renewed(led("a", 1, time.Hour))
	select {
	case <-changed:
	default:
		t.Error("those who wait do not hear of the renewal")
	}
	if target, _, _ := r.current(); target == nil {
		t.Error("its lease was renewed")
	}
	r.renewed(led("b", 2, time.Hour)) // which it had not heard of
	if target, _, _ := r.current(); target == nil || target.ID != "a" {
		t.Errorf("%+v leads", target)
	}
}

func TestACutClosesBothSides(t *testing.T) {
	r := newTestRoute(t, 0)
	r.lead(led("a", 1, time.Hour))
	target, _, _ := r.current()
	c1, _ := net.Pipe()
	c2, _ := net.Pipe()
	l := &link{target: target, client: c1, leader: c2}
	if !r.join(l) {
		t.Fatal("it leads")
	}
	r.renewed(led("a", 1, time.Hour))
	r.lead(led("a", 1, time.Hour)) // the same term: it may have moved
	if len(target.links) != 1 {
		t.Error("a connection of the same term was cut")
	}
	r.lead(led("b", 2, time.Hour))
	if len(target.links) != 0 || r.count.cut.Load() != 1 {
		t.Error("the connection was not cut")
	}
	for side, c := range map[string]net.Conn{"client": c1, "leader": c2} {
		if err := c.SetDeadline(time.Time{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection to the %s is open", side)
		}
	}
}

func TestAFailureToObserveIsLoggedOncePerChange(t *testing.T) {
	var log bytes.Buffer
	r := newRoute(&Proxy{opts: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	r.deaf(errors.New("no bucket"))
	r.deaf(errors.New("no bucket"))
	r.deaf(errors.New("no permission"))
	r.lead(leader.LeaderInfo{Group: "g"})
	r.deaf(errors.New("no permission"))
	r.lead(leader.LeaderInfo{Group: "g", ID: "a", Term: 1})
	r.deaf(errors.New("no permission"))
	r.renewed(leader.LeaderInfo{Group: "g", ID: "a", Term: 1})
	r.deaf(errors.New("no permission"))
	if n := strings.Count(log.String(), "cannot observe"); n != 5 {
		t.Errorf("logged %d times, want 5:\n%s", n, log.String())
	}
}
