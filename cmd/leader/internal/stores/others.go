//go:build !natsonly

package stores

import (
	"context"

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
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
)

// others are the drivers besides that of NATS.
func others() []store.Driver {
	return []store.Driver{
		redisstore.Driver(), pgstore.Driver(), mysqlstore.Driver(), etcdstore.Driver(), consulstore.Driver(),
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
