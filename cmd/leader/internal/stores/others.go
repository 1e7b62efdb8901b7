//go:build !natsonly

package stores

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/mongostore"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
)

// others are the drivers of stores other than NATS.
func others() []store.Driver {
	return []store.Driver{
		redisstore.Driver(), pgstore.Driver(), mysqlstore.Driver(), etcdstore.Driver(), consulstore.Driver(),
		s3store.Driver(), gcsstore.Driver(), mongostore.Driver(), k8sstore.Driver(),
	}
}

// Absent is empty, since this program knows all stores.
const Absent = ""

// Quiet keeps the clients of stores from writing to the standard error: the
// commands report failures.
func Quiet() {
	redis.SetLogger(silent{})
	klog.SetLogger(logr.Discard()) // the Kubernetes client
}

// silent is a logger of the Redis client that writes nothing.
type silent struct{}

// Printf writes nothing.
func (silent) Printf(context.Context, string, ...any) {}
