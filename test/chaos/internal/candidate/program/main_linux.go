// Program is what the fire lab runs as candidates, and as the busy loops that
// starve them. It is apart from the lab, since the lab builds it anew with
// clocks of its own (package skew), and perhaps with a bug (package mutant).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/candidate"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == candidate.Starve {
		return candidate.Spin(os.Stdin, os.Stdout)
	}
	err := candidate.Run(ctx, os.Stdin)
	if errors.Is(err, candidate.ErrOrphaned) {
		return nil
	}
	return err
}
