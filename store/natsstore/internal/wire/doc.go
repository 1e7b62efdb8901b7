// Package wire knows what travels between a bucket and its users: the subjects
// of a bucket, and how a record reads in each kind of message that carries one.
// It sends nothing and keeps nothing.
package wire
