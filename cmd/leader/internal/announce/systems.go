//go:build !natsonly

package announce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/consul/consuldiscovery"
	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/etcd/etcddiscovery"
	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sdiscovery"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
)

// openers open a system, by the scheme of its URL.
func openers() map[string]opener {
	return map[string]opener{
		"etcd": openEtcd, "etcds": openEtcd, "consul": openConsul, "consuls": openConsul, "k8s": openKubernetes,
	}
}

// each makes an announcer for each group.
func (s *system) each(groups []string, of func(group string) (discovery.Announcer, error)) error {
	for _, g := range groups {
		a, err := of(g)
		if err != nil {
			return err
		}
		s.announcers = append(s.announcers, a)
	}
	return nil
}

func openEtcd(ctx context.Context, u *url.URL, groups []string) (s system, err error) {
	config, err := etcdstore.ClientConfig(u)
	if err != nil {
		return s, err
	}
	config.DialTimeout = discovery.DefaultTimeout
	// A system with a user logs in when it is made. The client outlives the
	// call.
	own, end := context.WithCancel(context.Background())
	config.Context = own
	defer context.AfterFunc(ctx, end)()
	client, err := clientv3.New(config)
	if err != nil {
		return s, fmt.Errorf("%w at %s: %w", errNotLetIn, strings.Join(config.Endpoints, ", "), err)
	}
	s.close = func() { _ = client.Close() }
	err = s.each(groups, func(string) (discovery.Announcer, error) {
		return etcddiscovery.New(client, etcddiscovery.Options{Prefix: strings.TrimPrefix(u.Path, "/")})
	})
	return s, err
}

// take returns a parameter of a URL and removes it.
func take(query url.Values, name string) string {
	v := query.Get(name)
	query.Del(name)
	return v
}

func openConsul(_ context.Context, u *url.URL, groups []string) (s system, err error) {
	service, err := serviceOf(u, groups)
	if err != nil {
		return s, err
	}
	own := *u
	query := own.Query()
	opts := consuldiscovery.Options{Tag: take(query, "tag"), Prefix: take(query, "prefix")}
	if shortest := take(query, "session_ttl_min"); shortest != "" {
		if opts.MinSessionTTL, err = time.ParseDuration(shortest); err != nil || opts.MinSessionTTL <= 0 {
			return s, errors.New("the parameter session_ttl_min must be a time such as 10s")
		}
	}
	own.RawQuery = query.Encode()
	config, err := consulstore.ClientConfig(&own)
	if err != nil {
		return s, err
	}
	client, err := api.NewClient(config)
	if err != nil {
		return s, err
	}
	s.close = config.Transport.CloseIdleConnections
	err = s.each(groups, func(group string) (discovery.Announcer, error) {
		opts := opts
		opts.Service = cmp.Or(service, group)
		opts.Datacenter = config.Datacenter
		return consuldiscovery.New(client, opts)
	})
	return s, err
}

func openKubernetes(_ context.Context, u *url.URL, groups []string) (s system, err error) {
	service, err := serviceOf(u, groups)
	if err != nil {
		return s, err
	}
	own := *u
	query := own.Query()
	opts := k8sdiscovery.Options{PortName: take(query, "port")}
	own.RawQuery = query.Encode()
	config, namespace, err := k8sstore.ClientConfig(&own)
	if err != nil {
		return s, err
	}
	opts.Namespace = namespace
	var opened []*k8sdiscovery.Announcer
	err = s.each(groups, func(group string) (discovery.Announcer, error) {
		opts := opts
		opts.Service = cmp.Or(service, group)
		a, err := k8sdiscovery.New(config, opts)
		if err == nil {
			opened = append(opened, a)
		}
		return a, err
	})
	s.close = func() {
		for _, a := range opened {
			_ = a.Close()
		}
	}
	return s, err
}
