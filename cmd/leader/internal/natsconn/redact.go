package natsconn

import (
	"errors"
	"net/url"
	"strings"
)

// Shown returns the URL without credentials, for people.
func (s Settings) Shown() string { return Redacted(s.URL) }

// Redacted hides the user part of each of the URLs, which nats allows to be a
// list.
//
// It does not read them as URLs. They may be none, as one with a password in
// which a sign is not escaped, or one without a scheme, which nats adds: these
// are shown, too, and in error messages above all. A user part ends with the
// last @ then, since a password may hold what ends one in a URL, and a comma,
// too: only a scheme of nats begins the next URL.
func Redacted(urls string) string {
	var shown []string
	for piece := range strings.SplitSeq(urls, ",") {
		piece = strings.TrimSpace(piece)
		scheme, rest := cutScheme(piece)
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			// Text after the last scheme may be the user part's.
			for scheme == "" && len(shown) > 0 {
				scheme, _ = cutScheme(shown[len(shown)-1])
				shown = shown[:len(shown)-1]
			}
			piece = scheme + "***" + rest[at:]
		}
		shown = append(shown, piece)
	}
	return strings.Join(shown, ",")
}

// cutScheme cuts the scheme of a server from what follows. Another scheme than
// these is a mistake, or part of a password.
func cutScheme(piece string) (scheme, rest string) {
	for _, scheme := range []string{"nats://", "tls://", "ws://", "wss://"} {
		if n := len(scheme); len(piece) >= n && strings.EqualFold(piece[:n], scheme) {
			return piece[:n], piece[n:]
		}
	}
	return "", piece
}

// errURL replaces the standard library's error, which repeats the URL.
var errURL = errors.New("this is not a URL; in a user name and a password %XX encodes a special character, such as %40 for @")

// withoutURL returns an error that shows no credentials.
func withoutURL(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errURL
	}
	return err
}
