// Package histories holds no code. Its tests record histories of the NATS store
// under faults, on one server and on a cluster of processes, and judge them.
package histories
