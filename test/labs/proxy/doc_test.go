// Package proxy_test has clients send through package proxy without a pause
// while leaders are killed, frozen and cut off, and so are the proxy and the
// server, and judges what reached whom.
//
// The instances are processes of their own. Each notes what it read: when, and
// when the client had sent it, by the clock that all processes of a machine
// share. From that alone the judge (judge.go) decides.
package proxy_test
