//go:build !unix

package tethered

import "os"

// There are no such signals.
var freeze, thaw os.Signal = os.Interrupt, os.Interrupt
