//go:build !unix

package campaign

import "os"

// toggleSignal is nil: there is no signal for it here.
func toggleSignal() os.Signal { return nil }
