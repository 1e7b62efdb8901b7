package security_test

import "github.com/nats-io/nats.go"

// connect is quoted in docs/operate/security.md.
func connect(url, dir string) (*nats.Conn, error) {
	return nats.Connect(url,
		nats.RootCAs(dir+"/ca.pem"),
		nats.ClientCert(dir+"/candidate.pem", dir+"/candidate-key.pem"), // where the server demands it
		nats.UserCredentials(dir+"/candidate.creds"),                    // read anew at each reconnection
		nats.CustomInboxPrefix("_INBOX_candidate"),
		nats.MaxReconnects(-1),      // never give up
		nats.IgnoreAuthErrorAbort(), // nor when the credentials are refused: they may be renewed
		nats.RetryOnFailedConnect(true),
	)
}
