// Command quickstart runs its work in one of all its copies at a time.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// Wait for a server that is not there yet, and never give up.
	nc, err := nats.Connect(nats.DefaultURL, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	cfg := leader.ConfigFor("reports", leader.ProfileLowLatency)
	cfg.Logger = slog.Default()
	if err := leader.Run(ctx, nc, cfg, work); err != nil {
		log.Fatal(err)
	}
}

// work runs while this process leads. It returns soon after ctx ends.
func work(ctx context.Context, term leader.Term) error {
	log.Printf("leading in term %d", term.Number)
	<-ctx.Done()
	return nil
}
