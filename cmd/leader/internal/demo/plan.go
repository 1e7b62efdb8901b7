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

var (
	// errNotOurs: a fault would hit a server that the demo only visits, or a
	// quorum.
	errNotOurs = errors.New("it is for a single server that is the demo's own")
	// errNoMembers: a fault is for the servers of a quorum.
	errNoMembers = errors.New("it is for the members of a quorum, which --store quorum starts")
)
