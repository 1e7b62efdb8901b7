package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

const (
	maxPort = 1<<16 - 1
	// maxRoutes bounds what a file may ask for: each group is followed by
	// itself.
	maxRoutes = 1000
)

// A route is a group and the address to listen on for it.
type route struct {
	group, listen string
	port          int // of the leader's host; 0 for the record's port
}

// readRoutes reads a file of routes, a line each: GROUP LISTEN [PORT]. Empty
// lines, and text after a #, are ignored. The error contains every mistake. Two
// lines of one address are refused here, since the error of listening would not
// name the other line. Addresses that leave the port to the system may be
// equal.
func readRoutes(name string, file io.Reader) (routes []route, _ error) {
	var errs []error
	listens := map[string]int{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		wrong := func(all ...error) {
			for _, err := range all {
				if err != nil {
					errs = append(errs, fmt.Errorf("--file %s, line %d: %w", name, n, err))
				}
			}
		}
		r, mistakes := readRoute(fields)
		wrong(mistakes...)
		if before := listens[r.listen]; before > 0 && r.listen != "" && !anyPort(r.listen) {
			wrong(fmt.Errorf("listen %q: must differ from the address of line %d", r.listen, before))
		}
		listens[r.listen] = n
		// It reads no further: the file may be without end.
		if routes = append(routes, r); len(routes) > maxRoutes {
			wrong(fmt.Errorf("group %q: must be one of at most %d", r.group, maxRoutes))
			break
		}
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("--file %s: %w", name, err))
	}
	if len(routes) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("--file %s: must have a line GROUP LISTEN [PORT] for each group", name))
	}
	return routes, errors.Join(errs...)
}

// readRoute reads the fields of a line. All mistakes of a line are returned,
// with what could be read, so that one try is enough to see them.
func readRoute(fields []string) (r route, errs []error) {
	r.group = fields[0]
	errs = []error{app.ValidGroup(r.group)}
	if len(fields) < 2 {
		return r, append(errs, errors.New("listen: is required, as HOST:PORT"))
	}
	r.listen = fields[1]
	errs = append(errs, validListen("listen", r.listen))
	if len(fields) > 2 {
		port, err := strconv.Atoi(fields[2])
		if err != nil || port < 1 || port > maxPort {
			errs = append(errs, fmt.Errorf("port %q: must be from 1 to %d", fields[2], maxPort))
		}
		r.port = port
	}
	if len(fields) > 3 {
		errs = append(errs, fmt.Errorf("%q: must not follow GROUP LISTEN PORT", fields[3]))
	}
	return r, errs
}

// validListen returns what is wrong with an address. A port has to be a number,
// since whether the name of a service is known depends on the machine.
func validListen(what, address string) error {
	_, port, err := net.SplitHostPort(address)
	if n, number := strconv.ParseUint(port, 10, 16); err != nil || number != nil || n > maxPort {
		return fmt.Errorf("%s %q: must be HOST:PORT, such as 127.0.0.1:5432, or :5432 for every address of the machine", what, address)
	}
	return nil
}

// anyPort reports whether the system chooses the port.
func anyPort(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(port)
	return err == nil && n == 0
}
