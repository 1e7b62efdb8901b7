// Package process identifies the running process.
package process

import (
	"crypto/rand"
	"sync"
)

// ID returns a random text that identifies this process among all, those that
// run later on the same host included. It is drawn at the first call, and is the
// same for the rest of the process.
//
//nolint:gochecknoglobals // the identity of the process, which it has once
var ID = sync.OnceValue(rand.Text)
