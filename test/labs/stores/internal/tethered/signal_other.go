//go:build !unix

package tethered

import "os"

// This system has no such signals.
var freeze, thaw os.Signal = os.Interrupt, os.Interrupt
