package servers

import (
	"context"
	_ "embed" // for the module of kubernetes
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	etcdVersion   = "v3.7.3"
	consulVersion = "v1.22.7"
	// consulClient is the version of Consul's API, without which Consul's module
	// does not compile.
	consulClient      = "v1.34.4"
	kubernetesVersion = "v1.36.3" // as in kubernetes.mod
	s3Version         = "v1.8.0"
	gcsVersion        = "v1.56.1"
	// ferretDBVersion is the last that keeps its data without PostgreSQL's
	// DocumentDB extension.
	ferretDBVersion = "v1.24.0"
)

// command runs the go command in dir, a separate module: go install refuses a
// module that replaces others. The go command fetches the modules and checks
// their sums. None of them gets into a go.mod of this repository.
func command(ctx context.Context, dir string, args ...string) error {
	_, err := run(ctx, dir, []string{"GOWORK=off", "CGO_ENABLED=0"}, "go", args...)
	return err
}

// build runs the go command in dir several times. Its arguments are separated
// by spaces.
func build(ctx context.Context, dir string, commands ...string) error {
	for _, c := range commands {
		if err := command(ctx, dir, strings.Fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

func etcd(ctx context.Context, _ io.Writer, dir string) error {
	return build(ctx, dir, "mod init servers",
		"get go.etcd.io/etcd/server/v3@"+etcdVersion+" go.etcd.io/etcd/etcdutl/v3@"+etcdVersion,
		"build -o made/etcd go.etcd.io/etcd/server/v3",
		"build -o made/etcdutl go.etcd.io/etcd/etcdutl/v3")
}

func consul(ctx context.Context, _ io.Writer, dir string) error {
	const module = "github.com/hashicorp/consul"
	return build(ctx, dir, "mod init servers",
		"get "+module+"@"+consulVersion+" "+module+"/api@"+consulClient,
		"build -o made "+module)
}

func s3(ctx context.Context, _ io.Writer, dir string) error {
	const program = "github.com/versity/versitygw/cmd/versitygw"
	return build(ctx, dir, "mod init server", "get "+program+"@"+s3Version, "build -o made "+program)
}

func gcs(ctx context.Context, _ io.Writer, dir string) error {
	const program = "github.com/fsouza/fake-gcs-server"
	return build(ctx, dir, "mod init server", "get "+program+"@"+gcsVersion, "build -o made "+program)
}

var (
	//go:embed kubernetes.mod
	kubernetesMod []byte
	//go:embed kubernetes.sum
	kubernetesSum []byte
)

func kubernetes(ctx context.Context, _ io.Writer, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), kubernetesMod, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), kubernetesSum, 0o600); err != nil {
		return err
	}
	return command(ctx, dir, "build", "-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+kubernetesVersion,
		"-o", "made", "k8s.io/kubernetes/cmd/kube-apiserver")
}

// ferretDBMain is FerretDB over SQLite. Its arguments are where it listens and
// the directory of its data.
const ferretDBMain = `package main

import (
	"context"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	f, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: os.Args[1]}, Handler: "sqlite", SQLiteURL: "file:" + os.Args[2] + "/",
	})
	if err == nil {
		err = f.Run(context.Background())
	}
	if err != nil {
		panic(err)
	}
}
`

func ferretDB(ctx context.Context, _ io.Writer, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(ferretDBMain), 0o600); err != nil {
		return err
	}
	return build(ctx, dir, "mod init servers", "get github.com/FerretDB/FerretDB@"+ferretDBVersion, "mod tidy", "build -o made .")
}
