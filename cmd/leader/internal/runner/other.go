//go:build !unix

package runner

import (
	"context"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/guard"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

func (c Command) run(context.Context, string, app.Streams) error { return guard.ErrUnsupported }
