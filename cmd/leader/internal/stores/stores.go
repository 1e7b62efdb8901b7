// Package stores names the stores that the program knows in addition to NATS
// buckets. With the build tag natsonly it names only the quorum of NATS buckets,
// so that no other client is compiled.
package stores

import (
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// Drivers opens stores by their URLs. Their descriptions of URLs leave out
// parameters that the commands refuse.
func Drivers() []store.Driver {
	nats := natsstore.Driver()
	nats.Form = strings.Replace(nats.Form, "&create=true&replicas=N", "", 1)
	all := append([]store.Driver{nats}, others()...)
	return append(all, quorumstore.Driver(all...))
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
		if slices.Contains(d.Schemes, "quorum") {
			form += "\n      (experimental: three or five stores as one; %26 is & in their URLs)"
		}
		b.WriteString("  " + form + "\n")
	}
	return b.String()
}
