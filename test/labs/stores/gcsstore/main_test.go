// Package gcsstore_test judges the store on fake-gcs-server, an emulator in
// memory: what the service itself does beyond that is not judged here.
package gcsstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
)

func TestMain(m *testing.M) { trial.Main(m) }

// names makes the names of prefixes and keys unique.
var names atomic.Int64

func unique(word string) string { return fmt.Sprintf("%s%d", word, names.Add(1)) }

// bucket is the one of these tests.
const bucket = "lab"

// service returns a client with its own connections, closed when the test ends.
// around, if any, wraps them.
func service(tb testing.TB, addr string, around ...func(http.RoundTripper) http.RoundTripper) *storage.Service {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	tb.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport}
	for _, wrap := range around {
		c.Transport = wrap(c.Transport)
	}
	s, err := storage.NewService(tb.Context(), option.WithHTTPClient(c), option.WithEndpoint("http://"+addr+"/storage/v1/"))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// over returns a store over the client.
func over(tb testing.TB, c *storage.Service, opts gcsstore.Options) *gcsstore.Store {
	tb.Helper()
	opts.Bucket = bucket
	s, err := gcsstore.New(c, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// at returns a store at the address, with its own client.
func at(tb testing.TB, addr, prefix string) *gcsstore.Store {
	tb.Helper()
	return over(tb, service(tb, addr), gcsstore.Options{Prefix: prefix})
}

// made starts a server, and makes the bucket.
func made(tb testing.TB) (*objectlab.Server, *storage.Service) {
	tb.Helper()
	srv := objectlab.StartGCS(tb)
	c := service(tb, srv.Addr)
	if _, err := c.Buckets.Insert("lab", &storage.Bucket{Name: bucket}).Context(trial.Within(tb)).Do(); err != nil {
		tb.Fatal(err)
	}
	return srv, c
}

// An operator uses the ordinary tools.
type operator struct {
	testing.TB
	c *storage.Service
}

func (o operator) put(name string, content []byte) error {
	_, err := o.c.Objects.Insert(bucket, &storage.Object{Name: name}).Media(bytes.NewReader(content)).Context(trial.Within(o)).Do()
	return err
}

// remove deletes an object. A missing object is not an error.
func (o operator) remove(name string) error {
	err := o.c.Objects.Delete(bucket, name).Context(trial.Within(o)).Do()
	if answer, ok := errors.AsType[*googleapi.Error](err); ok && answer.Code == http.StatusNotFound {
		return nil
	}
	return err
}
