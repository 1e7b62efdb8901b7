// Package lab is the fire lab: it sets real candidates and real servers on
// fire, by a schedule that a seed decides, and has package history judge what
// they did. It runs on Linux.
//
// Its parts, from the ground up: package process has the candidates' processes,
// arena the servers and the guarded resources, schedule what a seed decides,
// results what was counted and how it is judged and shown. Package round holds
// a round on these, faults has what is done to one, and lab alone knows all.
package lab
