// Package core decides what a dispatcher and a worker of package tasks do. It
// has no clock, no goroutine and no I/O: an event and an instant go in, what is
// to be done comes out. Everything that comes out is a function of what went
// in, so that a simulation shows what the programs do.
//
// A [Leader] is the dispatcher of one term. It holds the open tasks, the
// workers that it has heard of, and what is due when:
//
//	record        write by compare-and-swap      when
//	queued     →  assigned (attempt n+1)         a worker that may has room
//	assigned   →  done                           its worker reports success
//	assigned   →  queued, or failed at the last  it reports failure; its deadline has
//	                                             passed; it is gone; it restarted
//
// The order goes out when the assignment is stored, never before; a report is
// settled when its outcome is stored, never before. An attempt that a worker
// holds and the store does not know of is revoked. A write that meets another
// revision is followed by a read, whose result counts.
//
// A record that is not valid or states a newer term is parked: it is left as it
// is. A worker that has seen a newer term is given nothing. Neither ends the
// dispatcher, since submitters and workers may state any number: only the
// election knows when a term has ended.
//
// A [Worker] accepts orders that are not older than the newest term that it has
// seen, and holds each attempt until a leader confirms that it is settled.
package core
