package announce

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/discovery/consuldiscovery"
	"github.com/seed-ff2cb582/leader/discovery/etcddiscovery"
	"github.com/seed-ff2cb582/leader/discovery/k8sdiscovery"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/etcdstore"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
)

// A system is where leaders are announced.
type system struct {
	announcers []discovery.Announcer // one for each group
	close      func()
}

// parse returns what opens the system at a URL, for announcers of the groups.
// Errors do not repeat the URL, which may hold a password.
func parse(to string, groups []string) (open func() (system, error), _ error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, errors.New("--to: is no URL")
	}
	opener := map[string]func(*url.URL, []string) (system, error){
		"etcd": openEtcd, "etcds": openEtcd, "consul": openConsul, "consuls": openConsul, "k8s": openKubernetes,
	}[strings.ToLower(u.Scheme)]
	const known = "must begin with etcd://, etcds://, consul://, consuls:// or k8s://"
	switch {
	case to == "":
		return nil, errors.New("--to: is required, and " + known)
	case opener == nil && u.Scheme == "":
		return nil, errors.New("--to: " + known)
	case opener == nil:
		return nil, fmt.Errorf("--to %s://: %s", u.Scheme, known)
	}
	if !strings.HasPrefix(u.Scheme, "etcd") {
		if _, err := serviceOf(u, groups); err != nil {
			return nil, fmt.Errorf("--to %s://: %w", u.Scheme, err)
		}
	}
	return func() (system, error) {
		s, err := opener(u, groups)
		if err == nil {
			return s, nil
		}
		if s.close != nil {
			s.close()
		}
		if errors.Is(err, errNotLetIn) {
			return s, fmt.Errorf("--to %s://: %w", u.Scheme, err)
		}
		return s, fmt.Errorf("%w: --to %s://: %w", app.ErrUsage, u.Scheme, err)
	}, nil
}

// errNotLetIn is no fault of the command line: a system that asks for a
// password is spoken to at the start.
var errNotLetIn = errors.New("no server has let us in")

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

func openEtcd(u *url.URL, groups []string) (s system, err error) {
	config, err := etcdstore.ClientConfig(u)
	if err != nil {
		return s, err
	}
	config.DialTimeout = discovery.DefaultTimeout
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

// serviceOf returns the name of the service that a URL's path is, or none for
// the name of each group.
func serviceOf(u *url.URL, groups []string) (string, error) {
	service := strings.Trim(u.Path, "/")
	switch {
	case strings.Contains(service, "/"):
		return "", errors.New("the path must be the name of one service")
	case service != "" && len(groups) > 1:
		return "", errors.New("one service is for one group; without a name, each group's is its own name")
	}
	return service, nil
}

func openConsul(u *url.URL, groups []string) (s system, err error) {
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

func openKubernetes(u *url.URL, groups []string) (s system, err error) {
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
