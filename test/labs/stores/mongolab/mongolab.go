// Package mongolab reaches the MongoDB that LEADER_MONGODB_URI names, a replica
// set whose user may make and drop databases. A test cannot start such a
// server, so that a test without it is skipped with a message.
package mongolab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// A Lab is a server, and a database of it that the test has for itself.
type Lab struct {
	URI      string
	Database string
}

// Start returns the lab of the server that the environment names, and drops its
// database when the test ends.
func Start(tb testing.TB) *Lab {
	tb.Helper()
	uri := os.Getenv("LEADER_MONGODB_URI")
	if uri == "" {
		tb.Skip("SKIPPED, NOT TESTED: no MongoDB is known: name a replica set by LEADER_MONGODB_URI, whose user may make and drop databases")
	}
	l := &Lab{URI: uri, Database: fmt.Sprintf("leader_test_%x", rand.Uint64())}
	tb.Cleanup(func() {
		if err := l.Client(tb).Database(l.Database).Drop(trial.Within(tb)); err != nil {
			tb.Error(err)
		}
	})
	return l
}

// Options are the options of clients of the server.
func (l *Lab) Options() *options.ClientOptions { return options.Client().ApplyURI(l.URI) }

// Client returns a client, which ends with the test.
func (l *Lab) Client(tb testing.TB, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	client, err := mongo.Connect(append([]*options.ClientOptions{l.Options()}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Disconnect(trial.Within(tb)) })
	return client
}

// Primary is host:port of the server that takes the writes, as a client here
// reaches it.
func (l *Lab) Primary(tb testing.TB) string {
	tb.Helper()
	opts := l.Options()
	if strings.HasPrefix(l.URI, "mongodb+srv:") {
		tb.Skip("SKIPPED, NOT TESTED: a client that is to take its way through a proxy needs a LEADER_MONGODB_URI that begins with mongodb:// and names hosts")
	}
	if len(opts.Hosts) == 0 {
		tb.Fatalf("LEADER_MONGODB_URI names no host: %v", opts.Validate())
	}
	if opts.Direct != nil && *opts.Direct { // the member's own name may be known to nobody else
		return withPort(opts.Hosts[0])
	}
	var hello struct {
		Primary string `bson:"primary"`
	}
	admin := l.Client(tb).Database("admin", options.Database().SetReadPreference(readpref.Primary()))
	if err := admin.RunCommand(trial.Within(tb), bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		tb.Fatal(err)
	}
	if hello.Primary == "" { // it is a mongos
		return withPort(opts.Hosts[0])
	}
	return hello.Primary
}

func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		return net.JoinHostPort(host, "27017")
	}
	return host
}

// Through are options by which a client reaches the server at host:port, such
// as a proxy, and no other member, whatever topology the server reports.
// primary is the server there, which its certificate names.
func (l *Lab) Through(primary, addr string) *options.ClientOptions {
	opts := l.Options().SetHosts([]string{addr}).SetDirect(true)
	if opts.TLSConfig != nil && opts.TLSConfig.ServerName == "" {
		own := opts.TLSConfig.Clone()
		own.ServerName, _, _ = net.SplitHostPort(primary)
		opts.SetTLSConfig(own)
	}
	return opts
}

// StoreURL is the URL of a store in the lab's database.
func (l *Lab) StoreURL(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(l.URI)
	if err != nil {
		tb.Fatal(err)
	}
	// The database of a URI also authenticates its user, unless the URI names
	// another.
	if query := u.Query(); u.User != nil && !query.Has("authSource") {
		source := strings.Trim(u.Path, "/")
		if source == "" {
			source = "admin"
		}
		query.Set("authSource", source)
		u.RawQuery = query.Encode()
	}
	u.Path = "/" + l.Database
	return u.String()
}
