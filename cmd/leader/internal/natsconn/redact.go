package natsconn

import (
	"net/url"
	"strings"
)

// Shown returns the URL without credentials, for people.
func (s Settings) Shown() string { return Redacted(s.URL) }

// Redacted hides the user part of each of the URLs, which nats allows to be a
// list.
func Redacted(urls string) string {
	list := strings.Split(urls, ",")
	for i, one := range list {
		one = strings.TrimSpace(one)
		if u, err := url.Parse(one); err == nil && u.User != nil {
			u.User = nil
			one = strings.Replace(u.String(), "//", "//***@", 1) // which url.User would escape
		}
		list[i] = one
	}
	return strings.Join(list, ",")
}
