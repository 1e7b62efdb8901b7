// Package proxy_test sends through package proxy without a pause while leaders,
// the proxy and the server are killed, frozen and cut off, and judges which
// requests reached which instance.
//
// The instances are processes of their own. Each notes what it read: when, and
// when the client had sent it, by the clock that all processes of a machine
// share. From that alone the judge (judge.go) decides.
package proxy_test
