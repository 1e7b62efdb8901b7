package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader/inspect"
)

const (
	// maxDrains is how many orders are kept: any instance could be named.
	maxDrains = 1000
	// ShownDrains is how many instances one line names, and a page has buttons for.
	ShownDrains = 10
)

// Drains are the orders by which instances are drained, as FollowPauses reports
// them. The zero Drains has none. Its methods may be called concurrently.
type Drains struct {
	mu     sync.Mutex
	orders map[string]inspect.Drain // by key
}

// Take records the order at a key, or its end. It keeps the first 1,000.
func (d *Drains) Take(key string, order inspect.Drain, drained bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.orders, key)
	if !drained || len(d.orders) >= maxDrains {
		return
	}
	if d.orders == nil {
		d.orders = make(map[string]inspect.Drain)
	}
	d.orders[key] = order
}

// Words describes how an instance is drained, as DrainWords does with whatever
// is known of it.
func (d *Drains) Words(instance string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	order := d.orders[inspect.DrainKey(instance)]
	return DrainWords(order.By, order.Reason)
}

// Orders returns the orders, by the names of their instances.
func (d *Drains) Orders() []inspect.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.orders), func(a, b inspect.Drain) int { return strings.Compare(a.Instance, b.Instance) })
}

// Lines describes the drained instances, a line each, ordered by their names.
func (d *Drains) Lines() (lines []string) {
	for _, order := range d.Orders() {
		lines = append(lines, fmt.Sprintf("instance %q is %s", order.Instance, DrainWords(order.By, order.Reason)))
	}
	return lines
}

// Line is Lines in one line, which names ten instances and counts the rest. It
// is empty if no instance is drained.
func (d *Drains) Line() string {
	lines, more := d.Lines(), ""
	if n := len(lines) - ShownDrains; n > 0 {
		lines, more = lines[:ShownDrains], fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(lines, "; ") + more
}

// DrainWords describes a drain by the operator who ordered it, and the reason.
// Either may be empty.
func DrainWords(by, why string) string {
	words := "drained"
	if by != "" {
		words += fmt.Sprintf(", by %q", by)
	}
	if why != "" {
		words += fmt.Sprintf(" (%q)", why)
	}
	return words
}
