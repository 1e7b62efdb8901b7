// Package kubelab starts real Kubernetes API servers for the project's tests: a
// kube-apiserver, with RBAC, and the etcd of package etcdlab, each in its own
// process, without containers. There are no nodes and no controllers: the API
// holds only the objects that the test has put there.
//
// Package servers finds the program, and skips or fails a test without it.
package kubelab

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/seed-ff2cb582/leader/test/internal/certificates"
	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/tethered"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Server is one kube-apiserver, on its own etcd unless it is
// [Server.Another].
type Server struct {
	Etcd *etcdlab.Cluster
	// Addr is where the server listens, host:port. It speaks TLS.
	Addr string

	tb      testing.TB
	bin     string // the path of kube-apiserver
	dir     string
	flags   []string // beyond those that every server has
	args    []string
	process *tethered.Process // nil while it does not run
	admin   *rest.RESTClient
}

// Start starts a server, and waits until it serves. It is killed when the test
// ends. Further flags are passed to kube-apiserver.
func Start(tb testing.TB, flags ...string) *Server {
	tb.Helper()
	s := &Server{tb: tb, bin: servers.Need(tb, "kubernetes"), dir: tb.TempDir(), Etcd: etcdlab.Start(tb, 1), flags: flags}
	if err := certify(s.dir); err != nil {
		tb.Fatalf("kubelab: %v", err)
	}
	s.begin()
	return s
}

// Another starts one more server on the same etcd, with the same flags, keys
// and users, as a control plane of several nodes has them. It is killed when
// the test ends.
func (s *Server) Another(tb testing.TB) *Server {
	tb.Helper()
	o := &Server{tb: tb, bin: s.bin, dir: s.dir, Etcd: s.Etcd, flags: s.flags}
	o.begin()
	return o
}

// begin gives the server a port, starts it, and ends it with the test.
func (s *Server) begin() {
	s.tb.Helper()
	s.Addr = "127.0.0.1:" + strconv.Itoa(ports.Free(s.tb, 1)[0])
	_, port, _ := strings.Cut(s.Addr, ":")
	s.args = append([]string{
		"--etcd-servers", s.Etcd.Nodes[0].URL(), "--bind-address", "127.0.0.1", "--secure-port", port,
		"--tls-cert-file", s.file("server.pem"), "--tls-private-key-file", s.file("server.key"), "--client-ca-file", s.file("ca.pem"),
		"--service-account-key-file", s.file("accounts.key"), "--service-account-signing-key-file", s.file("accounts.key"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
		// Off by default, and on in OpenShift: who writes an owner that blocks
		// its deletion needs the right to the owner's finalizers.
		"--enable-admission-plugins", "OwnerReferencesPermissionEnforcement",
		"--cert-dir", s.dir, "--profiling=false",
	}, s.flags...)
	admin, err := rest.UnversionedRESTClientFor(s.raw(s.Admin()))
	if err != nil {
		s.tb.Fatalf("kubelab: %v", err)
	}
	s.admin = admin
	s.tb.Cleanup(func() {
		s.Kill()
		s.admin.Client.CloseIdleConnections()
	})
	s.Run()
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// raw makes a configuration for requests in plain JSON out of one.
func (*Server) raw(c *rest.Config) *rest.Config {
	c.GroupVersion, c.NegotiatedSerializer = &schema.GroupVersion{}, serializer.NewCodecFactory(runtime.NewScheme())
	return c
}

// Admin returns a configuration with all rights. Each call returns one with its
// own connections.
func (s *Server) Admin() *rest.Config {
	c := s.Anonymous()
	// Not by the names of their files, since client-go has goroutines that look
	// after those.
	c.CertData, c.KeyData = s.read("admin.pem"), s.read("admin.key")
	return c
}

func (s *Server) read(name string) []byte {
	s.tb.Helper()
	b, err := os.ReadFile(s.file(name))
	s.must(err)
	return b
}

// Anonymous returns a configuration without a user.
func (s *Server) Anonymous() *rest.Config {
	return &rest.Config{
		Host: "https://" + s.Addr, TLSClientConfig: rest.TLSClientConfig{CAFile: s.file("ca.pem")},
		QPS: -1, Proxy: http.ProxyFromEnvironment, // a function, so that no transport is shared
	}
}

// Through returns the configuration for a server that is reached by another
// host:port, such as a proxy's.
func Through(c *rest.Config, addr string) *rest.Config {
	c = rest.CopyConfig(c)
	c.Host = "https://" + addr
	return c
}

// Run starts the server if it does not run, on the port and the etcd that it
// had before, and waits until it serves.
func (s *Server) Run() {
	s.tb.Helper()
	if s.process != nil {
		return
	}
	process, err := tethered.Start(s.bin, s.args...)
	s.must(err)
	s.process = process
	natslab.Eventually(s.tb, "kube-apiserver is ready", func(ctx context.Context) error {
		select {
		case <-s.process.Exited:
			s.tb.Fatalf("kubelab: kube-apiserver has ended:\n%s", s.process.Log())
		default:
		}
		return s.admin.Get().MaxRetries(0).AbsPath("/readyz").Do(ctx).Error()
	})
}

// Kill ends the server without a warning (SIGKILL), and returns when it is
// gone. Its etcd lives on.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}

// Freeze stops the server (SIGSTOP): its connections stay open, and nothing
// answers.
func (s *Server) Freeze() { s.must(s.process.Pause()) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.must(s.process.Resume()) }

func (s *Server) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("kubelab: %v", err)
	}
}

// Post creates an object by its JSON, at a path such as "/api/v1/namespaces".
func (s *Server) Post(path string, object any) []byte {
	s.tb.Helper()
	body, err := json.Marshal(object)
	s.must(err)
	answer, err := s.admin.Post().MaxRetries(0).AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(natslab.Within(s.tb)).Raw()
	if err != nil {
		s.tb.Fatalf("kubelab: %s: %v\n%s", path, err, answer)
	}
	return answer
}

type object = map[string]any

// Namespace makes a namespace.
func (s *Server) Namespace(name string) string {
	s.tb.Helper()
	s.Post("/api/v1/namespaces", object{"metadata": object{"name": name}})
	return name
}

// A Rule is one of a Role's.
type Rule struct {
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
	Verbs         []string `json:"verbs"`
}

// ServiceAccount makes a service account with a Role of these rules, and
// returns a configuration with a token of it.
func (s *Server) ServiceAccount(namespace, name string, rules ...Rule) *rest.Config {
	s.tb.Helper()
	rbac := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	accounts := "/api/v1/namespaces/" + namespace + "/serviceaccounts"
	s.Post(accounts, object{"metadata": object{"name": name}})
	s.Post(rbac+"/roles", object{"metadata": object{"name": name}, "rules": rules})
	s.Post(rbac+"/rolebindings", object{
		"metadata": object{"name": name},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": []object{{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
	})
	return s.Account(namespace, name)
}

// Account returns a configuration with a token of a service account.
func (s *Server) Account(namespace, name string) *rest.Config {
	s.tb.Helper()
	var answer struct {
		Status struct{ Token string }
	}
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	s.must(json.Unmarshal(s.Post(path, object{"spec": object{"expirationSeconds": 3600}}), &answer))
	c := s.Anonymous()
	c.BearerToken = answer.Status.Token
	return c
}

// Kubeconfig writes a kubeconfig file for the configuration's user, and returns
// its path.
func (s *Server) Kubeconfig(tb testing.TB, c *rest.Config, namespace string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(api.Config{
		Clusters:  map[string]*api.Cluster{"lab": {Server: c.Host, CertificateAuthority: c.CAFile}},
		AuthInfos: map[string]*api.AuthInfo{"user": {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Token: c.BearerToken}},
		Contexts: map[string]*api.Context{
			"lab": {Cluster: "lab", AuthInfo: "user", Namespace: namespace},
		},
		CurrentContext: "lab",
	}, path)
	if err != nil {
		tb.Fatalf("kubelab: %v", err)
	}
	return path
}

// URL is the URL of a store in a namespace, for a user with all rights.
func (s *Server) URL(tb testing.TB, namespace string) string {
	tb.Helper()
	return "k8s://" + namespace + "?kubeconfig=" + url.QueryEscape(s.Kubeconfig(tb, s.Admin(), ""))
}

// certify writes a certificate authority, the server's and the admin's
// certificates, and the key of service accounts.
func certify(dir string) error {
	ca, caKey, err := certificates.Issue(dir, "ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return err
	}
	_, _, err = certificates.Issue(dir, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	if err != nil {
		return err
	}
	_, _, err = certificates.Issue(dir, "admin", &x509.Certificate{
		Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	if err != nil {
		return err
	}
	_, _, err = certificates.Issue(dir, "accounts", &x509.Certificate{Subject: pkix.Name{CommonName: "accounts"}}, ca, caKey)
	return err
}
