// Command quickstart runs its work in one of all its copies at a time.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// Wait for a server that is not there yet, and never give up.
	nc, err := nats.Connect(nats.DefaultURL, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	cfg := leader.ConfigFor("reports", leader.ProfileLowLatency)
	cfg.Logger = slog.Default()
	return leader.Run(ctx, nc, cfg, work)
}

// work runs while this process leads. It returns soon after ctx ends.
func work(ctx context.Context, term leader.Term) error {
	fmt.Fprintf(os.Stderr, "leading in term %d\n", term.Number)
	<-ctx.Done()
	return nil
}
