package etcdstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// A relay sits between clients and a server, call by call. It may replace the
// server's answer after the call has had its effect there, as a gateway does,
// or a server that is being shut down. It serves calls with one request and one
// answer.
type relay struct {
	server *grpc.ClientConn
	addr   string

	mu      sync.Mutex
	answers map[string]error // by the method's name, instead of the server's next answer
	calls   map[string]int
}

// frame is a message as it is on the wire.
type frame struct{ data []byte }

// wire is a codec that leaves messages as they are.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) ([]byte, error) {
	if f, ok := v.(*frame); ok {
		return f.data, nil
	}
	return nil, fmt.Errorf("%T is not a frame", v)
}

func (wire) Unmarshal(data []byte, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is not a frame", v)
	}
	f.data = append([]byte(nil), data...)
	return nil
}

func newRelay(tb testing.TB, target string) *relay {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{server: conn, addr: l.Addr().String(), answers: make(map[string]error), calls: make(map[string]int)}
	srv := grpc.NewServer(grpc.ForceServerCodec(wire{}), grpc.UnknownServiceHandler(r.serve))
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	tb.Cleanup(func() {
		srv.Stop()
		_ = conn.Close()
		wg.Wait()
	})
	return r
}

// instead has the next call of the method answered so, once the server has
// served it.
func (r *relay) instead(method string, answer error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[method] = answer
}

// served is how many calls of the method have reached the server.
func (r *relay) served(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[method]
}

func (r *relay) serve(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	method := full[strings.LastIndex(full, "/")+1:]
	var question, answer frame
	if err := stream.RecvMsg(&question); err != nil {
		return err
	}
	ctx := stream.Context()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(context.WithoutCancel(ctx), md.Copy())
	}
	err := r.server.Invoke(ctx, full, &question, &answer, grpc.ForceCodec(wire{}))
	r.mu.Lock()
	r.calls[method]++
	if other := r.answers[method]; other != nil {
		err = other
		delete(r.answers, method)
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return stream.SendMsg(&answer)
}
