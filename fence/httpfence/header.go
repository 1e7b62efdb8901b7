package httpfence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// The headers that state a term.
const (
	HeaderGroup = "Leader-Group" // the group's name
	HeaderTerm  = "Leader-Term"  // the term's number, decimal
	HeaderToken = "Leader-Token" // the term's token
)

// ErrNoTerm is the error for a request that states no term at all, or has none
// in its context.
var ErrNoTerm = errors.New("httpfence: no term")

// Stamp states a group and its term in a request's headers, in place of what
// was stated before.
func Stamp(h http.Header, group string, t leader.Term) {
	h.Set(HeaderGroup, group)
	h.Set(HeaderTerm, strconv.FormatUint(t.Number, 10))
	h.Set(HeaderToken, t.Token)
}

// Read returns the group and the term in the headers of a request. A handler
// behind Require finds the term in its context instead. The error matches
// ErrNoTerm if the headers are missing, and fence.ErrInvalid if they are
// malformed: each must be present once, the group must be a name that
// store.ValidKey takes, the number a decimal without sign and leading zeros,
// and the token a string that fence.Check takes. That also bounds their length.
// No error shows a token.
func Read(h http.Header) (group string, t leader.Term, err error) {
	groups, numbers, tokens := h.Values(HeaderGroup), h.Values(HeaderTerm), h.Values(HeaderToken)
	if len(groups)+len(numbers)+len(tokens) == 0 {
		return "", leader.Term{}, ErrNoTerm
	}
	if len(groups) != 1 || len(numbers) != 1 || len(tokens) != 1 {
		return "", leader.Term{}, fmt.Errorf("%w: %s, %s and %s must each be given once",
			fence.ErrInvalid, HeaderGroup, HeaderTerm, HeaderToken)
	}
	if !store.ValidKey(groups[0]) {
		return "", leader.Term{}, fmt.Errorf("%w: %s names no group", fence.ErrInvalid, HeaderGroup)
	}
	n, err := strconv.ParseUint(numbers[0], 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != numbers[0] {
		return "", leader.Term{}, fmt.Errorf("%w: %s is not the number of a term", fence.ErrInvalid, HeaderTerm)
	}
	t = leader.Term{Number: n, Token: tokens[0]}
	if err := fence.Check(t); err != nil {
		return "", leader.Term{}, err
	}
	return groups[0], t, nil
}
