package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/internal/webbase"
)

var (
	errFull     = errors.New("too many connections")
	errNoLeader = errors.New("no leader could be connected to in time")
	errEnding   = errors.New("the proxy ends")
	errLoop     = errors.New("the leader's address is this proxy's own")
	errGone     = errors.New("the client has gone")
)

// connect returns a client's link to the leader, and waits for a leader.
// Meanwhile the client is read ahead.
func (s *server) connect(ctx context.Context, client *readahead) (*link, error) {
	s.count.waiting.Add(1)
	began := time.Now()
	defer func() {
		s.count.waiting.Add(-1)
		s.count.waited.Add(int64(time.Since(began)))
	}()
	waiting, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if s.opts.Wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(waiting, s.opts.Wait, errNoLeader)
		defer cancel()
	}
	client.gone = func() { leave(errGone) }
	client.ended = func() { s.mayYield(client, leave) }
	defer func() {
		client.take() // no call of ended comes after that
		s.stays(client)
	}()
	defer time.AfterFunc(attention, client.run).Stop()
	for failures := 1; ; failures++ {
		l, changed, err := s.try(waiting, client.conn)
		switch {
		case l != nil:
			l.ahead = client
			return l, nil
		case errors.Is(err, errLoop):
			return nil, err
		case s.opts.Wait < 0 && waiting.Err() == nil:
			return nil, errNoLeader
		}
		// An unreachable leader may have just started.
		again := time.NewTimer(delay(failures))
		select {
		case <-changed:
			failures = 0
		case <-again.C:
		case <-waiting.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return nil, errEnding
		}
		if waiting.Err() != nil {
			return nil, context.Cause(waiting)
		}
	}
}

// try connects to who leads now, if somebody does.
func (s *server) try(ctx context.Context, client net.Conn) (_ *link, changed <-chan struct{}, _ error) {
	t, info, changed := s.route.current()
	if t == nil {
		return nil, changed, errNoLeader
	}
	// The end of the term is its parent, so that nothing begins after that.
	dial, cancel := context.WithTimeout(t.over, s.opts.DialTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	begun := time.Now()
	conn, err := s.dial(dial, info.Address)
	if err != nil {
		waited := errors.Is(context.Cause(ctx), errNoLeader)
		if t.over.Err() == nil && (waited || ctx.Err() == nil) { // neither deposed meanwhile nor at the end of all
			if waited {
				err = fmt.Errorf("%w: after %v the client had waited for long enough", err, time.Since(begun))
			}
			s.count.failures.Add(1)
			if s.route.failure(t) {
				s.opts.Logger.Warn("cannot connect to the leader", "id", info.ID, "address", info.Address, "error", err)
			}
		}
		return nil, changed, err
	}
	l := &link{target: t, client: client, leader: conn}
	if !s.route.join(l) {
		reset(conn) // it was deposed meanwhile
		return nil, changed, errNoLeader
	}
	return l, changed, nil
}

func (s *server) dial(ctx context.Context, recorded string) (net.Conn, error) {
	address, err := addressOf(recorded, s.opts.Port)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{KeepAliveConfig: alive(), ControlContext: s.refuseItself}
	return d.DialContext(ctx, "tcp", address)
}

// refuseItself is called with each address of a name, before it is connected
// to. A proxy that is sent to itself would connect without an end.
func (s *server) refuseItself(_ context.Context, _, address string, _ syscall.RawConn) error {
	own, ok := s.ln.Addr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || int(to.Port()) != own.Port {
		return nil //nolint:nilerr // the dialer reports what is wrong with it
	}
	ip, at := to.Addr().Unmap().WithZone(""), own.AddrPort().Addr().Unmap().WithZone("")
	if ip == at || (at.IsUnspecified() || ip.IsUnspecified()) && isLocal(ip) {
		return errLoop
	}
	return nil
}

// isLocal reports whether an address is one of this machine.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addresses, _ := net.InterfaceAddrs() // if they cannot be had, MaxConns bounds what follows
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == ip {
				return true
			}
		}
	}
	return false
}

// addressOf returns where to connect: the record's address, a host with a port
// or a URL, with the port given, if any.
func addressOf(recorded string, port int) (string, error) {
	if _, _, isURL := strings.Cut(recorded, "://"); isURL {
		u, err := url.Parse(recorded)
		if err != nil {
			return "", errors.New("the leader's address is not a URL")
		}
		recorded = u.Host
		if u.Port() == "" {
			recorded = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
	}
	host, own, err := net.SplitHostPort(recorded)
	if err != nil {
		host, own = strings.Trim(recorded, "[]"), ""
	}
	if port != 0 {
		own = strconv.Itoa(port)
	}
	switch {
	case !webbase.IsHost(host):
		return "", errors.New("the leader's record has no host to connect to")
	case own == "":
		return "", fmt.Errorf("the leader's address %q has no port", recorded)
	}
	return net.JoinHostPort(host, own), nil
}
