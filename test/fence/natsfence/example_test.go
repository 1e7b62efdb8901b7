package natsfence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/natsfence"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Two leaders of a group write to a bucket, and the first one comes back late.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	nc, stop, err := exampleServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: "orders"}); err != nil {
		fmt.Println(err)
		return
	}

	// In OnPromote, or in the function given to leader.Run: open first, with
	// the term.
	first, err := natsfence.OpenKV(ctx, js, "orders", "clerks", leader.Term{Number: 41, Token: "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = first.Put(ctx, "order.1", []byte("packed"))
	fmt.Println("term 41:", err)

	second, err := natsfence.OpenKV(ctx, js, "orders", "clerks", leader.Term{Number: 57, Token: "b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = second.Put(ctx, "order.1", []byte("sent"))
	fmt.Println("term 57:", err)

	_, err = first.Put(ctx, "order.1", []byte("packed"))
	fmt.Println("term 41:", err)
	fmt.Println("stop:", errors.Is(err, fence.ErrStale))
	// Output:
	// term 41: <nil>
	// term 57: <nil>
	// term 41: fence: stale term 41/ca978112: 57/3e23e816 was accepted
	// stop: true
}

// exampleServer represents the server that a program connects to.
func exampleServer() (nc *nats.Conn, stop func(), err error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, nil, err
	}
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, nil, err
	}
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		return nil, nil, errors.New("the server does not start")
	}
	nc, err = nats.Connect("", nats.InProcessServer(srv))
	return nc, func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}, err
}
