// Package lab is the fire lab: it sets real candidates and real servers on
// fire, by a schedule that a seed decides, and has package history judge what
// they did. It runs on Linux.
package lab
