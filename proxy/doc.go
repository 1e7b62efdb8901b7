// Package proxy carries TCP connections to the leader of a group, so that a
// client in any language, a database's included, reaches the leader under one
// address that never changes.
//
//	p, err := proxy.New(nc, "leaders", "postgres", proxy.Options{Port: 5432})
//	...
//	err = p.Serve(ctx, listener)
//
// The leader's record contains its address (ElectionConfig.Address), or only
// its host, and [Options].Port the port. The proxy only observes the election:
// it needs the right to read the group's key and writes nothing. leader proxy,
// of cmd/leader, is this package as a program.
//
// # What it guarantees
//
//   - No connection is made to an instance that is known not to lead: whose
//     lease has run out as seen from here, that has released it, or after which
//     another leads. A record that was there at the start counts from its next
//     renewal on, since a record does not show its age.
//   - Each connection belongs to one term. When that term is seen to have
//     ended, the connection is cut on both sides, [Options].Grace later, also
//     if the same candidate leads again in a later term. Unsent data to the
//     former leader is discarded then.
//   - A connection that finds no leader waits for one, up to [Options].Wait. A
//     client that closes its connection meanwhile frees its slot at once. A
//     client that has sent a request before its end waits on: it may have
//     closed one direction alone, and expect the answer. Where all slots are
//     taken ([Options].MaxConns), it gives way to a new connection.
//   - The end of what one side sends is passed on alone, so that the other can
//     still answer. Bytes are not changed, and on Linux they do not pass
//     through this process (splice), other than the first 4 KiB of a client
//     that waits.
//   - When ctx ends, Serve accepts no more, lets connections end by themselves
//     for [Options].Drain, and cuts the rest. No goroutine is left when it
//     returns.
//
// A connection that is cut or refused is reset (RST). The orderly end (FIN)
// would read like a whole answer to protocols that end one so.
//
// # What it does not
//
// The proxy is not a fence. A leader may execute, after it was deposed, what it
// was sent before; it has to ask its election whether it leads, and acts that
// must not be done twice have to be refused by the protected resource by the
// term (package fence). With a Grace, a former leader is sent bytes for that
// long. A proxy that is itself frozen learns late, and may pass on a few bytes
// between its awakening and its first look at the clock. A proxy that is cut
// off from the store sees every lease run out, and then serves nobody.
//
// A new leader that cools down before it acts (ElectionConfig.AcquireGrace) is
// connected to from its claim on.
//
// The record decides where the proxy connects: grant the right to write it, in
// the store, to candidates alone.
package proxy
