package proxy_test

import (
	"context"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/proxy"
)

// A proxy beside each client of a database: the client connects to this host,
// and is carried to the host that leads.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		log.Print(err)
		return
	}
	defer nc.Close()
	p, err := proxy.New(nc, "leaders", "postgres", proxy.Options{
		Port: 5432, Wait: 30 * time.Second, Logger: slog.Default(),
	})
	if err != nil {
		log.Print(err)
		return
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:5432")
	if err != nil {
		log.Print(err)
		return
	}
	if err := p.Serve(ctx, ln); err != nil {
		log.Print(err)
	}
}
