// Package steer holds tests of the commands that change who leads, and of those
// that examine: on a cluster of three, and as users who may do little. They run
// the built program.
package steer
