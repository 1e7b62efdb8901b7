//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
	"github.com/seed-ff2cb582/leader/probe"
)

// copies are the web servers of a test, by name, and where they listen.
type copies map[string]string

// count asks a copy to count, following redirects.
func (c copies) count(t *testing.T, id string) (answer string, err error) {
	t.Helper()
	// A copy that is stopped accepts connections, and answers nothing: its
	// client asks again.
	resp, err := do(t, &http.Client{Timeout: time.Second}, http.MethodPost, "http://"+c[id]+"/count")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func do(t *testing.T, client *http.Client, method, url string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.Patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(req)
}

// status returns the status of a path, without following redirects.
func (c copies) status(t *testing.T, id, path string) (int, http.Header) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := do(t, client, http.MethodGet, "http://"+c[id]+path)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// eventually repeats try until it succeeds.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	err := errors.New("not tried")
	for end := time.Now().Add(lab.Patience); time.Now().Before(end); <-pause.C {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// countsVia waits until a request at a copy is answered, by whichever leads, in
// a term after the given one.
func (c copies) countsVia(t *testing.T, crew *lab.Crew, id string, after uint64) lab.Line {
	t.Helper()
	var l lab.Line
	eventually(t, "a count by way of "+id, func() error {
		answer, err := c.count(t, id)
		if err != nil {
			return err
		}
		var by string
		var n, term uint64
		if _, err := fmt.Sscanf(answer, "%s counts %d in term %d", &by, &n, &term); err != nil || term <= after {
			// An answer of the leader of before, which was on its way when that
			// was stopped.
			return fmt.Errorf("%q: %w", answer, cmp.Or(err, errors.New("an earlier term")))
		}
		l = crew.Await("the line of that count", func(l lab.Line) bool { return l.ID == by && l.Term == term })
		return nil
	})
	return l
}

func TestEachCopyLeadsClientsToTheOneThatAnswers(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s")
	at := copies{}
	for _, id := range []string{"a", "b", "c"} {
		at[id] = lab.FreeAddress(t)
		crew.Start(id, "-listen", at[id])
	}
	first := at.countsVia(t, crew, "a", 0)
	for id := range at {
		at.countsVia(t, crew, id, 0)
	}
	eventually(t, "one leads, and all know which", func() error { return at.checkProbes(t) })

	crew.Process(first.ID).Kill()
	delete(at, first.ID)
	other := anyOf(at)
	second := at.countsVia(t, crew, other, first.Term)

	frozen := crew.Process(second.ID)
	frozen.Freeze()
	addr := at[second.ID]
	delete(at, second.ID)
	third := at.countsVia(t, crew, anyOf(at), second.Term)
	frozen.Thaw()
	at[second.ID] = addr
	eventually(t, "the copy that was stopped redirects", func() error {
		if code, _ := at.status(t, second.ID, "/count"); code != http.StatusTemporaryRedirect {
			return fmt.Errorf("status %d", code)
		}
		return nil
	})

	crew.Process(third.ID).Terminate()
	at.countsVia(t, crew, second.ID, third.Term)
	crew.TerminateAll()
	crew.CheckOneAtATime()
}

// answered waits until the client has an answer of a term after the given one.
func answered(crew *lab.Crew, after uint64) (by string, term uint64) {
	crew.Await(fmt.Sprintf("an answer after term %d", after), func(l lab.Line) bool {
		var n int
		if _, err := fmt.Sscanf(l.Text, "was answered: %s counts %d in term %d", &by, &n, &term); err != nil {
			return false
		}
		return term > after
	})
	return by, term
}

func TestTheClientIsAnsweredByTheNextLeader(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s")
	for _, id := range []string{"a", "b", "c"} {
		crew.Start(id, "-listen", lab.FreeAddress(t))
	}
	crew.Start("client", "-call")
	first, term := answered(crew, 0)
	crew.Process(first).Kill()
	second, term := answered(crew, term)
	frozen := crew.Process(second)
	frozen.Freeze()
	third, term := answered(crew, term)
	if third == second || third == first {
		t.Errorf("%s answered, which is stopped", third)
	}
	frozen.Thaw()
	crew.Process(third).Terminate()
	if fourth, _ := answered(crew, term); fourth != second {
		t.Errorf("%s answered, want %s, which alone is left", fourth, second)
	}
	crew.TerminateAll()
	crew.CheckOneAtATime()
}

func anyOf(c copies) (id string) {
	for id = range c {
		break
	}
	return id
}

// checkProbes checks what the copies report about themselves and each other.
func (c copies) checkProbes(t *testing.T) error {
	t.Helper()
	var leads []string
	for id := range c {
		for _, path := range []string{"/livez", "/readyz"} {
			if code, _ := c.status(t, id, path); code != http.StatusOK {
				t.Errorf("%s%s: %d", id, path, code)
			}
		}
		if code, _ := c.status(t, id, "/leader"); code == http.StatusOK {
			leads = append(leads, id)
		}
	}
	if len(leads) != 1 {
		return fmt.Errorf("%q lead", leads)
	}
	for id := range c {
		code, header := c.status(t, id, "/leader")
		if at := header.Get(probe.AddressHeader); at != c[leads[0]] {
			return fmt.Errorf("%s leads, and %s announces %q", leads[0], id, at)
		}
		if redirects, _ := c.status(t, id, "/count"); code != http.StatusOK && redirects != http.StatusTemporaryRedirect {
			return fmt.Errorf("%s follows, and answers %d", id, redirects)
		}
	}
	return nil
}
