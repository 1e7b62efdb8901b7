// Package stores names the stores that the program knows besides the buckets of
// NATS.
package stores

import (
	"context"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/etcdstore"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/mongostore"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
)

// Drivers opens stores by their URLs.
func Drivers() []store.Driver {
	return []store.Driver{
		natsstore.Driver(), redisstore.Driver(), pgstore.Driver(), mysqlstore.Driver(), etcdstore.Driver(), consulstore.Driver(),
		s3store.Driver(), gcsstore.Driver(), mongostore.Driver(), k8sstore.Driver(),
	}
}

// Quiet keeps the clients of stores from writing to the standard error: what
// fails is told by the commands.
func Quiet() {
	redis.SetLogger(silent{})
	klog.SetLogger(logr.Discard()) // the Kubernetes client
}

// silent is a logger of the Redis client that says nothing.
type silent struct{}

// Printf says nothing.
func (silent) Printf(context.Context, string, ...any) {}

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
