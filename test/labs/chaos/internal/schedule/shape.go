// Package schedule is what a seed decides about a round of the fire lab: on
// which servers it is held, who takes part, at which rates their clocks run,
// and which faults there are when. It knows the faults by their names and does
// none of them.
package schedule

// A Shape describes the servers of a round.
type Shape struct {
	Name   string
	Nodes  int
	Memory bool // the bucket is kept in memory
	// CoolDown: new leaders cool down before they lead. The guarantees hold
	// without it as long as the store keeps what it acknowledged, so that
	// faults by which it does not are for shapes with it. In memory it is on by
	// itself.
	CoolDown bool
}

// Shapes are in the order in which rounds take them.
var Shapes = []Shape{
	{Name: "one server, file", Nodes: 1},
	{Name: "three servers, file", Nodes: 3},
	{Name: "one server, file, cool-down", Nodes: 1, CoolDown: true},
	{Name: "three servers, memory", Nodes: 3, Memory: true},
	{Name: "three servers, file, cool-down", Nodes: 3, CoolDown: true},
	{Name: "one server, memory", Nodes: 1, Memory: true},
}

// soakShape is the one with the most to lose.
var soakShape = Shapes[1]

// CoolsDown reports whether new leaders wait before they lead.
func (s Shape) CoolsDown() bool { return s.CoolDown || s.Memory }

// Everywhere reports whether a fault suits a shape. This one suits all.
func Everywhere(Shape) bool { return true }

// Replicated reports whether a shape has more than one server.
func Replicated(s Shape) bool { return s.Nodes > 1 }

// Forgetful reports whether a shape's leaders cool down, by which one leads at
// a time even where the store loses what it acknowledged.
func Forgetful(s Shape) bool { return s.CoolDown && !s.Memory }

// OnDisk reports whether a shape's server has its files on a disk of the lab,
// which can be slow or full.
func OnDisk(s Shape) bool { return s.Nodes == 1 && !s.Memory }
