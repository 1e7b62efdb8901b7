//go:build !unix

package campaign

import (
	"os"
	"os/exec"
)

// toggleSignal is nil: there is no signal for it here.
func toggleSignal() os.Signal { return nil }

// endTogether does nothing: what a command has started outlives it here.
func endTogether(*exec.Cmd) {}
