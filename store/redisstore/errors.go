package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
)

// code returns the word with which a server's error begins, or "" if the error
// is not from a server.
func code(err error) string {
	server, ok := errors.AsType[redis.Error](err)
	if !ok || errors.Is(err, redis.Nil) {
		return ""
	}
	return codeOf(server.Error())
}

func codeOf(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// refusal returns the class of an error code with which a server refuses a
// command before it runs it, or nil for any other code. Other codes may come
// from a proxy, which does not know whether the command ran.
func refusal(code string) error {
	switch code {
	case "LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS", "NOSCRIPT":
		return store.ErrTransient
	case "NOPERM", "NOAUTH", "WRONGPASS", "WRONGTYPE", "OOM", "MISCONF":
		return store.ErrPermanent
	default:
		return nil
	}
}

// classifyRead gives the class of a call that changes nothing, or that provably
// never left.
func classifyRead(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return store.ErrClosed
	}
	if class := refusal(code(err)); class != nil {
		return class
	}
	return store.ErrTransient
}

// classifyScript gives the class of a command's error that one of our scripts
// handed on: nothing was written.
func classifyScript(text string) error {
	if class := refusal(codeOf(text)); class != nil {
		return class
	}
	return store.ErrPermanent // a missing permission, whose text contains no separate code
}

// explain adds what to do to the errors that have one.
func explain(code string) string {
	switch code {
	case "WRONGTYPE":
		return ": the key holds a list, hash, set or stream that is not a record: delete it, or use another prefix"
	case "NOPERM", "NOAUTH", "WRONGPASS":
		return ": see the rights that the package documentation lists"
	case "OOM":
		return ": the server has no memory left for a record: raise maxmemory"
	default:
		return ""
	}
}

// readError is the error of a read.
func readError(what string, err error) error {
	return fmt.Errorf("%w: %s%s: %w", classifyRead(err), what, explain(code(err)), err)
}
