// Package arena has what a round of the fire lab is held on: real servers in
// processes of their own, the disks under them, what they store and what
// guarded resources accept. It knows nothing of candidates but what they are
// told, and nothing of faults but what they take.
package arena
