package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

func TestErrorsHaveTheirExitStatus(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		app.ExitOK:         nil,
		app.ExitFailure:    errors.New("anything"),
		app.ExitUsage:      errors.Join(errors.New("so"), leader.ErrInvalidConfig),
		app.ExitTwoLeaders: errors.Join(app.ErrTwoLeaders, errors.New("and more")),
	} {
		var stderr bytes.Buffer
		if got := complain(&stderr, err); got != want {
			t.Errorf("%v: exit status %d, want %d", err, got, want)
		}
		if (stderr.Len() == 0) != (err == nil) {
			t.Errorf("%v: stderr %q", err, stderr.String())
		}
	}
}
