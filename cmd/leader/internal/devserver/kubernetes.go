package devserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
)

// prepareKubernetes writes what an API server reads when it starts, a key for
// service accounts and its only user, who may do everything, and the kubeconfig
// of that user. The server makes its certificate by itself.
func prepareKubernetes(_ context.Context, p *Process) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	write := func(name, text string) error {
		return os.WriteFile(filepath.Join(p.work, name), []byte(text), 0o600)
	}
	token := rand.Text()
	return errors.Join(
		write("accounts.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))),
		write("users.csv", token+",leader,leader,system:masters\n"),
		write("kubeconfig", `{"apiVersion": "v1", "kind": "Config", "current-context": "dev",
"clusters": [{"name": "dev", "cluster": {"server": "https://127.0.0.1:`+p.port(0)+`", "certificate-authority": "apiserver.crt"}}],
"users": [{"name": "dev", "user": {"token": "`+token+`"}}],
"contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "dev"}}]}
`),
	)
}

func kubernetesArgs(p *Process) []string {
	return []string{
		"--etcd-servers", p.under.web(0), "--bind-address", "127.0.0.1", "--secure-port", p.port(0), "--cert-dir", p.work,
		"--token-auth-file", "users.csv", "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-key-file", "accounts.key", "--service-account-signing-key-file", "accounts.key",
		"--service-account-issuer", "https://kubernetes.default.svc", "--endpoint-reconciler-type", "none", "--profiling=false",
	}
}
