package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"
)

const (
	group       = "lab"
	elections   = "leaders"
	work        = "work"
	workerLease = time.Second
)

// options are the options of a run and of its processes.
type options struct {
	TTL      time.Duration
	Servers  int
	Capacity int
	Takes    time.Duration
	Quiet    bool
	Create   bool
	Verbose  bool
	GRPC     bool
	Address  string // of a gRPC server, for workers that are to look for none
	Finish   int    // how many finished tasks a leader waits for before it reports

	Throughput bool // is all that is measured
}

func (o options) args() []string {
	return []string{
		"-ttl", o.TTL.String(), "-servers", fmt.Sprint(o.Servers), "-capacity", fmt.Sprint(o.Capacity), "-takes", o.Takes.String(),
		fmt.Sprintf("-quiet=%v", o.Quiet), fmt.Sprintf("-v=%v", o.Verbose),
		fmt.Sprintf("-grpc=%v", o.GRPC), "-address", o.Address, "-finish", fmt.Sprint(o.Finish),
	}
}

func logger(o options) *slog.Logger {
	if !o.Verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
