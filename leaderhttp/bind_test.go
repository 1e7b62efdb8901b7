package leaderhttp

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestACopyOfATransportSpeaksTheVersionOfHTTPThatItSpeaks(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defaults, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t.Fatalf("%T", http.DefaultTransport)
	}
	for name, c := range map[string]struct {
		base  *http.Transport
		major int
	}{
		"the default":               {defaults, 2},
		"the zero one":              {&http.Transport{}, 2},
		"one with settings of TLS":  {&http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, 1},
		"one that is asked to":      {&http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}, 2},
		"one that is not to":        {&http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, 1},
		"one whose protocol is set": {&http.Transport{Protocols: one()}, 1},
	} {
		b := bind(c.base, "reports")
		b.TLSClientConfig.InsecureSkipVerify = true // it is not the subject
		resp, err := (&http.Client{Transport: b}).Get(server.URL)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.ProtoMajor != c.major || b.TLSClientConfig.ServerName != "reports" {
			t.Errorf("%s: %s, for %q", name, resp.Proto, b.TLSClientConfig.ServerName)
		}
		b.CloseIdleConnections()
		if config := c.base.TLSClientConfig; config != nil && config.ServerName != "" {
			t.Errorf("%s: it was changed: %q", name, config.ServerName)
		}
	}
}

func one() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}
