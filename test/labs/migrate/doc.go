// Package migrate holds the tests of docs/guides/migrating/ttl-bucket.md: programs that elect by
// other libraries over NATS are replaced by programs of this one, and back,
// instance by instance, on one key.
package migrate
