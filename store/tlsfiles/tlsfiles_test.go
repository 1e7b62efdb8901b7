package tlsfiles_test

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestFilesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, files tlsfiles.Files) func(context.Context) {
		dial := tlsfiles.Dial(func() (*tls.Config, error) { return files.Config(nil) })
		return func(ctx context.Context) {
			if c, err := dial(ctx, "tcp", address); err == nil {
				_ = c.Close()
			}
		}
	})
}

func TestAFileThatIsNoneIsNamed(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]tlsfiles.Files{
		"of the parameters cert and key one is missing": {Cert: empty},
		"the parameter ca: open /nowhere":               {CA: "/nowhere"},
		"the parameter ca: " + empty + " holds no":      {CA: empty},
		"the parameters cert and key: ":                 {Cert: empty, Key: empty},
	} {
		if _, err := files.Config(nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", files, err)
		}
		dial := tlsfiles.Dial(func() (*tls.Config, error) { return files.Config(nil) })
		if _, err := dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: a dial: %v", files, err)
		}
	}
}
