// Package stores names the stores that the program knows besides the buckets of
// NATS. With the build tag natsonly it names none, so that no client of theirs is
// compiled.
package stores

import (
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Drivers opens stores by their URLs. What they say of those leaves out what
// the commands refuse.
func Drivers() []store.Driver {
	nats := natsstore.Driver()
	nats.Form = strings.Replace(nats.Form, "&create=true&replicas=N", "", 1)
	return append([]store.Driver{nats}, others()...)
}

// Forms shows the URLs, with the parameters below where both are long.
func Forms() string {
	var b strings.Builder
	for _, d := range Drivers() {
		form := d.Form
		if base, params, ok := strings.Cut(form, "[?"); ok && len(form) > 70 {
			form = base + "\n      [?" + params
		}
		if slices.Contains(d.Schemes, "mongodb") {
			form += "\n      (not verified on a server)"
		}
		b.WriteString("  " + form + "\n")
	}
	return b.String()
}
