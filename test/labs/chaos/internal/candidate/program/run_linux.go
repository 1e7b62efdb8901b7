package main

import (
	"context"
	"errors"
	"os"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
)

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
