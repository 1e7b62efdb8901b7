package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/leadergrpc"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A server is the server of an instance.
type server interface {
	Serve(l net.Listener) error
	// Leave ends the server when the calls under way are over.
	Leave() error
}

// A handler runs a call, whose text contains the caller's request.
type handler func(ctx context.Context, text string) (answer string, err error)

// A client calls the leader, or one instance.
type client interface {
	Call(ctx context.Context, c *call)
	Close()
}

// A call is one to the leader.
type call struct {
	number int
	hold   string // the instance whose handler is to keep it, "" for none
	// repeatable: it may run twice, and the client repeats it where its
	// connection breaks.
	repeatable bool

	began time.Time
	took  time.Duration
	// impatient: it was given little time, since the leader was frozen.
	impatient bool

	at      atomic.Pointer[string] // the address of the server that it was sent to last
	fresh   atomic.Bool            // it was sent by a connection that had carried nothing
	by      string                 // the instance that answered
	refused bool                   // by an instance that does not lead
	err     error
}

// text is what the handler reads.
func (c *call) text() string { return fmt.Sprintf("%d %s", c.number, c.hold) }

func (c *call) sentTo(address string) { c.at.Store(&address) }

// where is the address of the server that the call was sent to last, "" if it
// was not sent.
func (c *call) where() string {
	if at := c.at.Load(); at != nil {
		return *at
	}
	return ""
}

type observe func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error]

// A protocol is how calls get to the leader.
type protocol struct {
	serve  func(e leader.Election, j *journal, h handler) server
	follow func(o observe) (client, error)
	// pin returns a client of one address.
	pin func(address string) (client, error)
	// repeatable reports which calls the client repeats.
	repeatable func(number int) bool
	// lingers: a server serves on when it has lost the leadership, until its
	// clients have left. Otherwise one of HTTP closes connections as idle by
	// which a request is on its way, and nobody knows then what became of it.
	lingers bool
	// args select it in an instance.
	args []string
}

var (
	overGRPC = protocol{serve: serveGRPC, follow: followGRPC, pin: pinGRPC, repeatable: func(int) bool { return true }}
	overHTTP = protocol{
		serve: serveHTTP, follow: followHTTP, pin: pinHTTP, repeatable: func(n int) bool { return n%2 == 0 },
		lingers: true, args: []string{"-http"},
	}
)

type grpcServer struct{ *grpc.Server }

func (s grpcServer) Leave() error { s.GracefulStop(); return nil }

func serveGRPC(e leader.Election, j *journal, h handler) server {
	noting := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, v := arrive(ctx)
		defer j.leave(v)
		return next(ctx, req)
	}
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(noting, leadergrpc.UnaryServer(e, leadergrpc.ServerOptions{})))
	s.RegisterService(service(h), nil)
	return grpcServer{s}
}

const method = "/reach.Reach/Who"

// service describes the service that h serves.
func service(h handler) *grpc.ServiceDesc {
	who := func(_ any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		return between(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
			answer, err := h(ctx, in.GetValue())
			return wrapperspb.String(answer), err
		})
	}
	return &grpc.ServiceDesc{
		ServiceName: "reach.Reach", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Who", Handler: who}},
	}
}

type grpcClient struct{ conn *grpc.ClientConn }

func dialGRPC(target string, opts ...grpc.DialOption) (client, error) {
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	return grpcClient{conn}, err
}

func followGRPC(o observe) (client, error) {
	return dialGRPC("leader:///"+group, leadergrpc.NewBuilder(func(ctx context.Context, _ string) iter.Seq2[leader.LeaderInfo, error] {
		return o(ctx)
	}, leadergrpc.BuilderOptions{
		Repeatable: func(string) bool { return true },
		RetryFor:   harness.Patience, // only a fault of this library makes a call fail, however slow the machine is
	}).DialOptions()...)
}

func pinGRPC(address string) (client, error) { return dialGRPC("passthrough:///" + address) }

func (g grpcClient) Close() { _ = g.conn.Close() }

func (g grpcClient) Call(ctx context.Context, c *call) {
	var to peer.Peer
	out := new(wrapperspb.StringValue)
	c.err = g.conn.Invoke(ctx, method, wrapperspb.String(c.text()), out, grpc.Peer(&to))
	c.by = out.GetValue()
	if to.Addr != nil {
		c.sentTo(to.Addr.String())
	}
	_, c.refused = leadergrpc.RefusalOf(c.err)
}

type httpServer struct{ *http.Server }

func (s httpServer) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s httpServer) Leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	err := s.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// Shutdown waits for seconds for connections that clients have opened
		// and not used. There are no requests any more: see lingers.
		err = s.Close()
	}
	return err
}

func serveHTTP(e leader.Election, j *journal, h handler) server {
	redirect := probe.Redirect(e, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Query().Get("text")
		answer, err := h(r.Context(), text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, answer) // a caller that is gone needs none
	}), probe.RedirectOptions{})
	return httpServer{&http.Server{
		ReadHeaderTimeout: harness.Patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, v := arrive(r.Context())
			defer j.leave(v)
			redirect.ServeHTTP(w, r.WithContext(ctx))
		}),
	}}
}

type httpClient struct {
	*http.Client

	base  string
	close func()
}

// connections are the connections of a separate client. They are kept, however
// many calls have waited at the same time.
func connections() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 10 * rate} }

func followHTTP(o observe) (client, error) {
	below := connections()
	t := leaderhttp.New(o, leaderhttp.Options{
		Transport: below,
		// Only a fault of this library makes a call fail, however slow the
		// machine is.
		RetryFor: harness.Patience, Tries: 1 << 20,
	})
	return httpClient{&http.Client{Transport: t}, "http://" + group, func() { t.Close(); below.CloseIdleConnections() }}, nil
}

func pinHTTP(address string) (client, error) {
	below := connections()
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return httpClient{&http.Client{Transport: below, CheckRedirect: stay}, "http://" + address, below.CloseIdleConnections}, nil
}

func (h httpClient) Close() { h.close() }

func (h httpClient) Call(ctx context.Context, c *call) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) {
		c.fresh.Store(!g.Reused)
		c.sentTo(g.Conn.RemoteAddr().String())
	}})
	c.by, c.refused, c.err = h.ask(ctx, c)
}

var errStatus = errors.New("another status than 200")

// ask asks by GET, which http.Transport repeats on another connection where
// that breaks which it has used before, or by POST, which it does not.
func (h httpClient) ask(ctx context.Context, c *call) (by string, refused bool, err error) {
	verb, body := http.MethodGet, io.Reader(http.NoBody)
	if !c.repeatable {
		verb, body = http.MethodPost, strings.NewReader("once")
	}
	req, err := http.NewRequestWithContext(ctx, verb, h.base+"/who?text="+strings.ReplaceAll(c.text(), " ", "+"), body)
	if err != nil {
		return "", false, err
	}
	resp, err := h.Do(req)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: %s: %s", errStatus, resp.Status, text)
	}
	return string(text), resp.Header.Get(probe.RefusalHeader) != "", err
}

// parseText parses the result of call.text.
func parseText(text string) (number int, hold string, err error) {
	first, hold, _ := strings.Cut(text, " ")
	number, err = strconv.Atoi(first)
	return number, hold, err
}
