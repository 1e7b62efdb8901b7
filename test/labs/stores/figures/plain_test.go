//go:build unix

package figures_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-sql-driver/mysql"
	consul "github.com/hashicorp/consul/api"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

// A plain is what is behind a renewal and a handover, by the store's own client
// as its documentation uses it, without this library: two connections, each of
// which can replace one record, and the news of that which the second hears.
// Where there are none, there is no second connection either.
type plain struct {
	from, to swap
	news     <-chan uint64 // revisions
}

// A swap replaces the record if its revision is the expected one, which is 0 if
// there is no record, and returns the next revision.
type swap func(expected uint64) (uint64, error)

// renewal is one write. It begins at a revision, and returns that at its end.
func (p *plain) renewal(t *testing.T, at uint64) (began, ended time.Time, next uint64) {
	t.Helper()
	began = time.Now()
	next, err := p.from(at)
	ended = time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if p.news != nil {
		p.after(t, at) // otherwise the handover would take these events for the events of its own write
	}
	return began, ended, next
}

// handover is the least that one takes: a write, the news of it, and a write by
// the one that hears them. It begins at a revision, and returns that at its
// end.
func (p *plain) handover(t *testing.T, at uint64) (began, ended time.Time, next uint64) {
	t.Helper()
	began = time.Now()
	left := make(chan error, 1) // the answer to the first write may come after the news
	go func() {
		_, err := p.from(at)
		left <- err
	}()
	next, err := p.to(p.after(t, at))
	ended = time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	p.after(t, next-1) // or the next handover would begin beside these news
	return began, ended, next
}

// after waits for news of a later revision than this one.
func (p *plain) after(t *testing.T, revision uint64) uint64 {
	t.Helper()
	limit := time.After(databases.Patience)
	for {
		select {
		case heard := <-p.news:
			if heard > revision {
				return heard
			}
		case <-limit:
			t.Fatalf("no news of what follows revision %d", revision)
		}
	}
}

// value is as long as a record.
var value = bytes.Repeat([]byte("x"), 300)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func host(t *testing.T, address string) string {
	t.Helper()
	return must(url.Parse(address))(t).Host
}

func plainNATS(t *testing.T, address string) *plain {
	t.Helper()
	open := func() jetstream.KeyValue {
		nc := must(nats.Connect("nats://" + host(t, address)))(t)
		t.Cleanup(nc.Close)
		return must(must(jetstream.New(nc))(t).KeyValue(within(t), "votes"))(t)
	}
	by := func(kv jetstream.KeyValue) swap {
		return func(expected uint64) (uint64, error) { return kv.Update(within(t), "plain", value, expected) }
	}
	from, to := open(), open()
	watch := must(to.Watch(t.Context(), "plain", jetstream.UpdatesOnly()))(t)
	news := make(chan uint64, 8)
	go func() {
		for e := range watch.Updates() {
			news <- e.Revision()
		}
	}()
	t.Cleanup(func() { _ = watch.Stop() })
	return &plain{by(from), by(to), news}
}

func plainRedis(t *testing.T, address string) *plain {
	t.Helper()
	open := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: host(t, address)})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	script := redis.NewScript(`
		local revision = tonumber(redis.call('HGET', KEYS[1], 'revision') or '0')
		if revision ~= tonumber(ARGV[1]) then return redis.error_reply('another revision') end
		redis.call('HSET', KEYS[1], 'revision', revision + 1, 'value', ARGV[2])
		redis.call('PUBLISH', KEYS[1], revision + 1)
		return revision + 1`)
	by := func(c *redis.Client) swap {
		return func(expected uint64) (uint64, error) {
			return script.Run(within(t), c, []string{"plain"}, expected, value).Uint64()
		}
	}
	from, to := open(), open()
	sub := to.Subscribe(t.Context(), "plain")
	_ = must(sub.Receive(within(t)))(t) // that it is subscribed
	news := make(chan uint64, 8)
	go func() {
		for m := range sub.Channel() {
			n, _ := strconv.ParseUint(m.Payload, 10, 64) // 0 means no revision
			news <- n
		}
	}()
	t.Cleanup(func() { _ = sub.Close() })
	return &plain{by(from), by(to), news}
}

func plainPostgres(t *testing.T, address string) *plain {
	t.Helper()
	open := func() *pgx.Conn {
		c := must(pgx.Connect(within(t), strings.TrimSuffix(address, "&create=true")))(t)
		t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
		return c
	}
	by := func(c *pgx.Conn) swap {
		return func(expected uint64) (revision uint64, err error) {
			err = c.QueryRow(within(t), `WITH r AS (UPDATE plain SET revision = revision + 1, value = $2 WHERE revision = $1 RETURNING revision)
				SELECT revision, pg_notify('plain', revision::text) FROM r`, expected, value).Scan(&revision, nil)
			return revision, err
		}
	}
	from, to, listens := open(), open(), open()
	for _, statement := range []string{
		"CREATE TABLE plain (key text PRIMARY KEY, revision bigint NOT NULL, value bytea)",
		"INSERT INTO plain VALUES ('plain', 0, NULL)",
	} {
		_ = must(from.Exec(within(t), statement))(t)
	}
	_ = must(listens.Exec(within(t), "LISTEN plain"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	news, ended := make(chan uint64, 8), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := listens.WaitForNotification(ctx)
			if err != nil {
				return
			}
			n, _ := strconv.ParseUint(m.Payload, 10, 64) // 0 means no revision
			news <- n
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &plain{by(from), by(to), news}
}

func plainMariaDB(t *testing.T, address string) *plain {
	t.Helper()
	u := must(url.Parse(address))(t)
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName, config.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
	config.Passwd, _ = u.User.Password()
	db := sql.OpenDB(must(mysql.NewConnector(config))(t))
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"CREATE TABLE plain (name varchar(8) PRIMARY KEY, revision bigint NOT NULL, value blob) ENGINE = InnoDB",
		"INSERT INTO plain VALUES ('plain', 0, NULL)",
	} {
		_ = must(db.ExecContext(within(t), statement))(t)
	}
	// Prepared once, it is one round trip.
	update := must(db.PrepareContext(within(t), "UPDATE plain SET revision = revision + 1, value = ? WHERE name = 'plain' AND revision = ?"))(t)
	return &plain{from: func(expected uint64) (uint64, error) {
		result, err := update.ExecContext(within(t), value, expected)
		if err != nil {
			return 0, err
		}
		switch n, err := result.RowsAffected(); {
		case err != nil:
			return 0, err
		case n != 1:
			return 0, errors.New("another revision")
		}
		return expected + 1, nil
	}}
}

func plainEtcd(t *testing.T, address string) *plain {
	t.Helper()
	open := func() *clientv3.Client {
		c := must(clientv3.New(clientv3.Config{Endpoints: []string{host(t, address)}}))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	by := func(c *clientv3.Client) swap {
		return func(expected uint64) (uint64, error) {
			r, err := c.Txn(within(t)).If(clientv3.Compare(clientv3.ModRevision("plain"), "=", int64(expected))).
				Then(clientv3.OpPut("plain", string(value))).Commit()
			switch {
			case err != nil:
				return 0, err
			case !r.Succeeded:
				return 0, errors.New("another revision")
			}
			return uint64(r.Header.Revision), nil
		}
	}
	from, to := open(), open()
	news := make(chan uint64, 8)
	changes := to.Watch(t.Context(), "plain", clientv3.WithCreatedNotify())
	<-changes // it was created
	go func() {
		for r := range changes {
			for _, e := range r.Events {
				news <- uint64(e.Kv.ModRevision)
			}
		}
	}()
	return &plain{by(from), by(to), news}
}

func plainConsul(t *testing.T, address string) *plain {
	t.Helper()
	open := func() *consul.Client { return must(consul.NewClient(&consul.Config{Address: host(t, address)}))(t) }
	by := func(c *consul.Client) swap {
		return func(expected uint64) (uint64, error) {
			// Flags, since what changes nothing has no new revision.
			op := &consul.KVTxnOp{Verb: consul.KVCAS, Key: "plain", Value: value, Flags: expected, Index: expected}
			_, r, _, err := c.Txn().Txn(consul.TxnOps{{KV: op}}, nil)
			if err != nil {
				return 0, err
			}
			if len(r.Results) != 1 {
				return 0, fmt.Errorf("another revision: %v", r.Errors)
			}
			return r.Results[0].KV.ModifyIndex, nil
		}
	}
	from, to := open(), open()
	news := make(chan uint64, 8)
	go func() {
		for last := uint64(1); ; {
			pair, info, err := to.KV().Get("plain", (&consul.QueryOptions{WaitIndex: last}).WithContext(t.Context()))
			if err != nil {
				return
			}
			if last = info.LastIndex; pair != nil {
				news <- pair.ModifyIndex
			}
		}
	}()
	return &plain{by(from), by(to), news}
}

func plainS3(t *testing.T, address string) *plain {
	t.Helper()
	u := must(url.Parse(address))(t)
	secret, _ := u.User.Password()
	c := s3.New(s3.Options{
		BaseEndpoint: aws.String(u.Query().Get("endpoint")), Region: u.Query().Get("region"), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(u.User.Username(), secret, ""),
	})
	tags := map[uint64]*string{} // by revision
	return &plain{from: func(expected uint64) (uint64, error) {
		// With the revision, since tags are digests, and what changes nothing
		// has no new one.
		in := &s3.PutObjectInput{Bucket: &u.Host, Key: aws.String("plain"), Body: bytes.NewReader(of(expected + 1)), IfMatch: tags[expected]}
		if expected == 0 {
			in.IfNoneMatch = aws.String("*")
		}
		out, err := c.PutObject(within(t), in)
		if err != nil {
			return 0, err
		}
		tags[expected+1] = out.ETag
		return expected + 1, nil
	}}
}

func plainGCS(t *testing.T, address string) *plain {
	t.Helper()
	u := must(url.Parse(address))(t)
	service := must(storage.NewService(context.WithoutCancel(t.Context()), option.WithoutAuthentication(),
		option.WithEndpoint(u.Query().Get("endpoint")+"/storage/v1/")))(t)
	return &plain{from: func(expected uint64) (uint64, error) {
		o, err := service.Objects.Insert(u.Host, &storage.Object{Name: "plain"}).Media(bytes.NewReader(value), googleapi.ChunkSize(0)).
			IfGenerationMatch(int64(expected)).Context(within(t)).Do()
		if err != nil {
			return 0, err
		}
		return uint64(o.Generation), nil
	}}
}

// of is a value that no other revision has, and as long as each.
func of(revision uint64) []byte {
	text := append([]byte(strconv.FormatUint(revision, 10)), value...)
	return text[:len(value)]
}

func kubernetesURL(tb testing.TB, srv *kubelab.Server, addr string) string {
	tb.Helper()
	return "k8s://default?kubeconfig=" + url.QueryEscape(srv.Kubeconfig(tb, kubelab.Through(srv.Admin(), addr), ""))
}

func plainKubernetes(t *testing.T, address string) *plain {
	t.Helper()
	config := must(clientcmd.BuildConfigFromFlags("", must(url.Parse(address))(t).Query().Get("kubeconfig")))(t)
	config.QPS = -1 // it does not hold its own requests back
	by := func(c *kubernetes.Clientset) swap {
		return func(expected uint64) (uint64, error) {
			lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{
				Name: "plain", Annotations: map[string]string{"value": string(value)},
			}}
			leases := c.CoordinationV1().Leases("default")
			var err error
			if expected == 0 {
				lease, err = leases.Create(within(t), lease, meta.CreateOptions{})
			} else {
				lease.ResourceVersion = strconv.FormatUint(expected, 10)
				lease.Annotations["after"] = lease.ResourceVersion // or nothing would change
				lease, err = leases.Update(within(t), lease, meta.UpdateOptions{})
			}
			if err != nil {
				return 0, err
			}
			return strconv.ParseUint(lease.ResourceVersion, 10, 64)
		}
	}
	from, to := must(kubernetes.NewForConfig(config))(t), must(kubernetes.NewForConfig(config))(t)
	watch := must(to.CoordinationV1().Leases("default").Watch(t.Context(), meta.ListOptions{FieldSelector: "metadata.name=plain"}))(t)
	news := make(chan uint64, 8)
	go func() {
		for e := range watch.ResultChan() {
			if l, ok := e.Object.(*coordination.Lease); ok {
				n, _ := strconv.ParseUint(l.ResourceVersion, 10, 64) // 0 means no revision
				news <- n
			}
		}
	}()
	t.Cleanup(watch.Stop)
	return &plain{by(from), by(to), news}
}
