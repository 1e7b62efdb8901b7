// Package agent is leader agent: elections for programs in any language, over
// HTTP on loopback or a Unix socket.
//
// # Who believes what, and for how long
//
// A client leads while it trusts the latest answer to a request of its own, and
// measures that by its own clock from the instant before the request was sent:
//
//	client     sent ────────────────────────── sent + trust_for_ms      it stops acting
//	agent            answers at t ── grants trust_for_ms ──▶ t + trust   no earlier, since sent ≤ t
//	agent                                          its trust window, and the client's lease, end no earlier
//	others                                                                 lead after TTL × (1 + drift)
//
// So a client's belief ends before the agent's, and that before the lease. An
// answer that comes late is worth less, not more. An event of a stream has no
// instant of sending that its reader knows: it grants nothing, and says only
// that it is time to ask.
//
// # Letting another lead
//
// A term is released when its work has stopped: when the client says so, by the
// number of the term, or when the latest trust that any answer granted has run
// out. Until then OnPromote does not return, and the library releases nothing.
// A client that is frozen, killed or cut off needs no word to stop.
//
// # Whom the agent stands for
//
// A candidate lives by its client's lease. Each keepalive renews it, and that
// is the request by which a client gets trust: one that does not ask has none,
// and one that asks lives. A connection would prove less: the kernel keeps that
// of a process that is frozen. Trust never outlasts the client's lease, so a
// candidate whose client fell silent is withdrawn, and released at once, when
// that runs out.
package agent
