package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/proxy"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A client connects to the proxy's address, and is carried to the service of
// the candidate that leads. On NATS it is proxy.New, and each part is a
// separate program.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	st := memstore.New()
	var config net.ListenConfig

	// The service, on a host that takes part in the election.
	service, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		if c, err := service.Accept(); err == nil {
			_, _ = fmt.Fprintln(c, "hello from the leader")
			_ = c.Close()
		}
	}()
	election, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: "service", InstanceID: "host-1", Address: service.Addr().String(),
		TTL: 10 * time.Second, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
	})
	if err == nil {
		err = election.Start(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	// The proxy.
	p, err := proxy.NewWithStore(st, "service", proxy.Options{Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	front, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.Serve(ctx, front) })

	// A client.
	if c, err := net.DialTimeout("tcp", front.Addr().String(), time.Minute); err == nil {
		answer, _ := io.ReadAll(c)
		fmt.Print(string(answer))
		_ = c.Close()
	}

	stop()
	serving.Wait()
	_ = election.Stop()
	_ = service.Close()

	// Output: hello from the leader
}
