package base

import (
	"net/http"
	"time"
)

// HTTP2 returns settings by which a connection is given up on which nothing
// comes in for 8 s. By itself HTTP/2 gives up none: where a firewall forgets a
// connection silently, each call times out, and the next takes the same
// connection, until the system stops sending again after a quarter of an hour.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 3 * time.Second}
}
