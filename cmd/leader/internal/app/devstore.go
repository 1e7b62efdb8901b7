package app

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// envStore is the variable that names a store.
const envStore = "LEADER_STORE"

// An ownServer is a server that a user starts to try a store out.
type ownServer struct {
	start string // the command that starts it in an empty directory
	store string // the URL of the store there, for --store
}

// ownServers are the servers by the schemes of their stores' URLs. All listen on
// the loopback interface, on the ports that the stores assume.
func ownServers() map[string]ownServer {
	redis := ownServer{"redis-server --appendonly yes --appendfsync always", "redis://127.0.0.1"}
	postgresql := ownServer{
		"initdb -D data -U leader -A trust && postgres -D data -k ''",
		"postgres://leader@127.0.0.1/postgres?sslmode=disable&create=true",
	}
	mariadb := ownServer{
		"docker run --rm -p 127.0.0.1:3306:3306 -e MARIADB_ROOT_PASSWORD=dev -e MARIADB_DATABASE=leader mariadb",
		"mysql://root:dev@127.0.0.1/leader?create=true",
	}
	etcd := ownServer{"etcd --data-dir data", "etcd://127.0.0.1"}
	consul := ownServer{"consul agent -dev", "consul://127.0.0.1"}
	mongodb := ownServer{"mongod --replSet rs0 --dbpath . and once mongosh --eval 'rs.initiate()'", "mongodb://127.0.0.1/dev"}
	return map[string]ownServer{
		"redis": redis, "rediss": redis, "postgres": postgresql, "postgresql": postgresql, "mysql": mariadb, "mariadb": mariadb,
		"etcd": etcd, "etcds": etcd, "consul": consul, "consuls": consul, "mongodb": mongodb, "mongodb+srv": mongodb,
		"k8s": {"kind create cluster", "k8s://default"},
		"s3": {
			"versitygw --port 127.0.0.1:7070 --access leader --secret leader-dev posix .",
			"s3://leader:leader-dev@leader?region=us-east-1&create=true&endpoint=http://127.0.0.1:7070",
		},
		"gs": {
			"fake-gcs-server -backend memory -scheme http -host 127.0.0.1 -port 4443 -public-host 127.0.0.1:4443 -external-url http://127.0.0.1:4443",
			"gs://leader?project=dev&create=true&auth=none&endpoint=http://127.0.0.1:4443",
		},
	}
}

// checkDev returns an error if --dev comes with a --store that it does not
// serve: --dev starts a NATS server alone. A store of the environment is not
// used then, as NATS_URL is not. The error shows no more of the URL than its
// scheme, since the rest may be secret.
func (t Target) checkDev() error {
	if !t.Dev || t.Store == "" || t.Store == t.Env.Get(envStore) {
		return nil
	}
	u, err := url.Parse(t.Store)
	if err != nil {
		return errors.New("--dev: starts a NATS server, and --store names another server: leave out one of the two")
	}
	scheme := strings.ToLower(u.Scheme)
	own, known := ownServers()[scheme]
	switch {
	case known:
		return fmt.Errorf("--dev: starts a NATS server alone, and --store names %s://: start a server in an empty directory, and leave out --dev:\n  %s\n  --store '%s'",
			scheme, own.start, own.store)
	case scheme != "nats":
		return fmt.Errorf("--dev: starts a NATS server alone, and --store names %s://", scheme)
	case u.Host != "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Opaque != "" || u.Fragment != "":
		return errors.New("--dev: brings its own server, and --store names another: leave out one of the two")
	}
	return nil
}
