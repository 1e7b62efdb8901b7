package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/seed-ff2cb582/leader/store"
)

// errStandby: the server replays another's log. It takes no writes, and what it
// shows may be old. It may be promoted, or the pool may find the primary with
// its next connection, so this is for the moment only.
var errStandby = errors.New("the server is a standby (pg_is_in_recovery)")

// SQLSTATE codes that this package acts on (PostgreSQL documentation, appendix
// A).
const (
	codeReadOnly         = "25006" // read_only_sql_transaction: of a standby, too
	codeUndefinedTable   = "42P01"
	codeUndefinedFunc    = "42883"
	codeUndefinedColumn  = "42703"
	codeInvalidSchema    = "3F000"
	codeInvalidCatalog   = "3D000"
	codeNoPrivilege      = "42501"
	codeNotPrerequisite  = "55000" // of the function, for a trigger that is disabled
	classInvalidAuth     = "28"
	classSyntaxOrAccess  = "42"
	classDataException   = "22"
	classIntegrity       = "23"
	classTriggeredAction = "09"
)

// undone reports whether a code, or its class, is of an error that a server
// reports for a statement that it has rolled back, or never started. Other
// codes may come from a pooler, which so reports that it lost the server, but
// not whether the statement was applied. A statement_timeout (57014) is treated
// like a pooler's code, since poolers have timeouts, too: a read then finds out
// whether the write was applied.
func undone(code string) bool {
	switch code {
	case "40001", "40002", "40P01":
		return true
	}
	switch code[:min(len(code), 2)] {
	case classTriggeredAction, "0A", "21", classDataException, classIntegrity, "25", "26", classInvalidAuth, "2F",
		"38", "39", "3D", "3F", classSyntaxOrAccess, "44", "53", "54", "55", "P0":
		return true
	}
	return false
}

// classifyWrite returns the class of a failed write. An error that the server
// reports without ending the session, of a code that is the server's own, has
// rolled the statement back. An error that ends the session (FATAL, PANIC) may
// have come while a commit waited for a standby, and a connection that breaks
// gives no information at all.
func classifyWrite(err error) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case answered && statementOnly(pg) && undone(pg.Code):
		return classifyCode(pg.Code)
	case answered:
		return store.ErrUnknown
	case pgconn.SafeToRetry(err):
		return store.ErrTransient
	default:
		return store.ErrUnknown
	}
}

// statementOnly reports whether the error ended the statement and not the
// session.
func statementOnly(pg *pgconn.PgError) bool {
	severity := pg.SeverityUnlocalized
	if severity == "" { // of a server before 9.6
		severity = pg.Severity
	}
	return severity == "ERROR"
}

// classifyRead gives the class of a failed read.
func classifyRead(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyCode(pg.Code)
	}
	return store.ErrTransient
}

// classifyConnect gives the class of a failure to get a connection.
func classifyConnect(err error) error {
	// database/sql has no name for the error of a pool that was closed.
	if errors.Is(err, puddle.ErrClosedPool) || err.Error() == "sql: database is closed" {
		return store.ErrClosed
	}
	if errors.Is(err, errDriver) {
		return store.ErrPermanent
	}
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		return store.ErrPermanent
	}
	return classifyRead(err)
}

// classifyCode distinguishes failures that a person has to fix from failures
// that pass by themselves. Nothing was applied in either case.
func classifyCode(code string) error {
	switch code {
	case codeInvalidSchema, codeInvalidCatalog, codeNotPrerequisite:
		return store.ErrPermanent
	}
	for _, class := range []string{classInvalidAuth, classSyntaxOrAccess, classDataException, classIntegrity, classTriggeredAction} {
		if strings.HasPrefix(code, class) {
			return store.ErrPermanent
		}
	}
	return store.ErrTransient
}

// explain wraps a failure, and adds how to fix it. A connection to a server
// that takes no writes is not used again: its pool may find another.
func (c *client) explain(conn *lent, class, err error) error {
	code := ""
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		code = pg.Code
	}
	hint := ""
	switch code {
	case codeUndefinedTable, codeUndefinedFunc, codeUndefinedColumn, codeInvalidSchema:
		hint = ": the table and what belongs to it are missing or of another version: run the statement that pgstore.Schema returns, or set Options.Create"
	case codeNoPrivilege:
		hint = fmt.Sprintf(": grant the user SELECT ON %s, and to candidates EXECUTE ON FUNCTION %s too", c.names.table, c.names.swap)
	case codeReadOnly:
		hint = ": the server takes no writes; connect to the primary (target_session_attrs=read-write)"
	}
	if code == codeReadOnly || errors.Is(err, errStandby) {
		c.drop(conn)
	}
	return fmt.Errorf("%w: table %s: %w%s", class, c.names.table, err, hint)
}

// drop closes a connection, which its pool then replaces.
func (c *client) drop(conn *lent) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	_ = conn.Close(ctx) // it is given up in any case
}
