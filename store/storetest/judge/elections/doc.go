// Package elections runs elections over any store of package store: the purpose
// of a store that passed storetest. Package judge runs them beside all else; a
// separate test is one call, on a real server:
//
//	func TestElections(t *testing.T) {
//		srv := start(t)
//		elections.Run(t, elections.Harness{
//			Open:   func(t testing.TB) store.Store { return srv.client(t) },
//			Delete: srv.delete,
//		})
//	}
//
// While a test runs it looks for two leaders at one instant, and at its end for
// terms that did not grow. Nothing depends on a fast machine: with the long
// lease nothing expires while a test waits, and with the short one everything
// does soon.
//
// A [Party] is the candidates of a test that harms their servers.
package elections
