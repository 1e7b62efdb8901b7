package app

import (
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
)

// A Kit is what commands use and only main links: the server of NATS and the
// clients of all stores. Other packages and their tests would take long to link
// otherwise.
type Kit struct {
	// Drivers open the stores that --store names.
	Drivers []store.Driver
	// Absent explains why others are not known; empty if all are.
	Absent string
	// Settings returns the settings of a connection's flags, and the context
	// that they name.
	Settings func(natsconn.Flags) (natsconn.Settings, error)
	// Contexts returns the names of the contexts.
	Contexts func() []string
	// Serve starts an empty NATS server with JetStream on a port of the
	// loopback interface, 0 for any that is free.
	Serve func(port int) (Server, error)
}

// A Server is the NATS server of a command's own.
type Server interface {
	// URL is where clients connect.
	URL() string
	// Stop stops the server as a signal would. Its files stay.
	Stop()
	// Start starts a stopped server again, with its files, at its URL.
	Start() error
	// Close stops the server and removes its files.
	Close() error
}

// Apply makes the Kit an option of the parser: commands may take it, and the
// help of --store names its stores as ${stores}.
func (k Kit) Apply(parser *kong.Kong) error {
	return errors.Join(kong.Bind(k).Apply(parser), kong.Vars{"stores": k.stores()}.Apply(parser))
}

// stores names the kinds of stores by their first schemes, for people.
func (k Kit) stores() string {
	var all []string
	for _, driver := range k.Drivers {
		kind := driver.Schemes[0] + "://"
		switch driver.Schemes[0] {
		case "nats":
			kind += "HOST/BUCKET"
		case "mongodb":
			kind += " (not verified on a server)"
		}
		all = append(all, kind)
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return strings.Join(all, "")
}

// knows reports whether a driver has the scheme of a store's URL.
func (k Kit) knows(rawURL string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(rawURL), ":")
	return slices.ContainsFunc(k.Drivers, func(d store.Driver) bool { return slices.Contains(d.Schemes, scheme) })
}
