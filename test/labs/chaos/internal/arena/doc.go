// Package arena provides the surroundings of a fire lab's round: real servers
// in their own processes, the disks under them, the data that they store and
// the data that guarded resources accept. It knows only how candidates are
// configured, and only what faults act on.
package arena
