package demo

import (
	"errors"
	"time"
)

// A plan is what a demo is to do.
type plan struct {
	Store       string // its URL, elsewhere than on NATS
	Bucket, Key string
	Workers     int
	TTL         time.Duration
	Heartbeat   time.Duration
	NoSplay     bool
	For         time.Duration
	Script      Script // nil for none
}

// errNotOurs: a fault would hit a server that the demo only visits.
var errNotOurs = errors.New("the server is not the demo's own, and is not restarted")
