package tlsfiles_test

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// An HTTP client whose certificate is renewed beside it.
func ExampleDial() {
	files := tlsfiles.Files{CA: "/nowhere/ca.pem", Cert: "/nowhere/cert.pem", Key: "/nowhere/key.pem"}
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: tlsfiles.Dial(func() (*tls.Config, error) { return files.Config(nil) }, "h2", "http/1.1"), ForceAttemptHTTP2: true,
	}}
	answer, err := client.Get("https://127.0.0.1:1")
	if err == nil {
		_ = answer.Body.Close()
	}
	fmt.Println(err)
	// Output: Get "https://127.0.0.1:1": the parameter ca: open /nowhere/ca.pem: no such file or directory
}
