//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
	"github.com/seed-ff2cb582/leader/probe"
)

// A program is what a sidecar campaigns for.
type program struct {
	*httptest.Server
	well    atomic.Bool
	sidecar string
}

func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{sidecar: lab.FreeAddress(t)}
	p.well.Store(true)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !p.well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// leads asks the sidecar.
func (p *program) leads(t *testing.T) (leads bool, term string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.sidecar+"/leader", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, ""
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK, resp.Header.Get(probe.TermHeader)
}

// awaitLeader waits until one of the programs leads, checks that none else
// does, and returns its index.
func awaitLeader(t *testing.T, programs []*program, not int) (who int, term string) {
	t.Helper()
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(lab.Patience); time.Now().Before(end); <-pause.C {
		for i, p := range programs {
			if ok, n := p.leads(t); ok && i != not {
				return i, n
			}
		}
	}
	t.Fatal("no program leads")
	return 0, ""
}

func TestTheProgramBesideTheSidecarLeadsWhileItIsWell(t *testing.T) {
	crew := lab.NewCrew(t, lab.Build(t), "-server", lab.Server(t), "-ttl", "1s", "-drain", "100ms")
	programs := []*program{newProgram(t), newProgram(t), newProgram(t)}
	for i, p := range programs {
		crew.Start(fmt.Sprint(i), "-listen", p.sidecar, "-health", p.URL)
	}
	first, term := awaitLeader(t, programs, -1)
	crew.Await("the term that the program received", func(l lab.Line) bool {
		return l.ID == fmt.Sprint(first) && fmt.Sprint(l.Term) == term
	})

	programs[first].well.Store(false)
	second, _ := awaitLeader(t, programs, first)

	crew.Process(fmt.Sprint(second)).Kill()
	third, _ := awaitLeader(t, programs, second)
	if third == first {
		t.Error("a program that is not well leads")
	}

	programs[first].well.Store(true)
	crew.Process(fmt.Sprint(third)).Terminate()
	if fourth, _ := awaitLeader(t, programs, third); fourth != first {
		t.Errorf("program %d leads, and only %d is left", fourth, first)
	}
	crew.TerminateAll()
}
