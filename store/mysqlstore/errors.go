package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
)

// errReadOnly: the server takes no writes, and may be a replica whose state is
// old. It may become the primary, or the pool may find that with its next
// connection, so this is for the moment only.
var errReadOnly = errors.New("the server is read-only (read_only): elections need the primary")

// Errors of the server that this package acts on (MariaDB and MySQL have them
// in common).
const (
	erBadNull         = 1048
	erDupEntry        = 1062
	erBadTable        = 1051
	erNoSuchTable     = 1146
	erNoSuchDatabase  = 1049
	erDatabaseDenied  = 1044
	erAccessDenied    = 1045
	erTableDenied     = 1142
	erColumnDenied    = 1143
	erRightsNeeded    = 1227
	erNoSuper         = 1419
	erParse           = 1064
	erBadField        = 1054
	erSignal          = 1644
	erTooLarge        = 1153
	erOption          = 1290 // such as --read-only
	erReadOnlyMode    = 1836
	erReadOnlyTx      = 1792
	erLockTimeout     = 1205
	erDeadlock        = 1213
	erTooManyConns    = 1040
	erTooManyUserConn = 1203
	erDiskFull        = 1021
	erRecordFull      = 1114
)

// classifyCode returns the class of a server's error to a single statement that
// it is known to have undone. The others are unknown, among them the errors of
// a commit and of a session that is ended.
func classifyCode(code uint16) error {
	switch code {
	case erDupEntry:
		return store.ErrConflict
	case erBadTable, erNoSuchTable, erNoSuchDatabase, erDatabaseDenied, erAccessDenied, erTableDenied, erColumnDenied, erRightsNeeded,
		erNoSuper, erParse, erBadField, erSignal, erTooLarge:
		return store.ErrPermanent
	case erOption, erReadOnlyMode, erReadOnlyTx, erLockTimeout, erDeadlock, erTooManyConns, erTooManyUserConn, erDiskFull, erRecordFull:
		return store.ErrTransient
	default:
		return store.ErrUnknown
	}
}

// classifyWrite returns the class of a failed write. The driver returns
// ErrBadConn for a write that it never sent, ErrPktTooLarge for a write that it
// will never send, and nothing definite for the rest.
func classifyWrite(err error) error {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return classifyCode(answer.Number)
	}
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge):
		return store.ErrPermanent
	case errors.Is(err, driver.ErrBadConn):
		return store.ErrTransient
	}
	return store.ErrUnknown
}

// isReadOnly reports whether the server refused the write because the server or
// the session is read-only.
func isReadOnly(err error) bool {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains([]uint16{erOption, erReadOnlyMode, erReadOnlyTx}, answer.Number)
}

// classifyRead gives the class of a failed read.
func classifyRead(err error) error {
	if errors.Is(classifyWrite(err), store.ErrPermanent) {
		return store.ErrPermanent
	}
	return store.ErrTransient
}

// classifyConnect gives the class of a failure to get a connection.
func classifyConnect(err error) error {
	if errors.Is(err, closedPool()) {
		return store.ErrClosed
	}
	return classifyRead(err)
}

// closedPool returns the error of a sql.DB that was closed, which has no name.
func closedPool() error {
	db := sql.OpenDB(nowhere{})
	_ = db.Close() // it has no connections
	_, err := db.Conn(context.Background())
	return err
}

// nowhere is a driver that is never asked to connect.
type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }
func (nowhere) Driver() driver.Driver                        { return nil }

// explain wraps a failure, and adds how to fix it.
func (c *client) explain(class, err error) error {
	hint := ""
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch answer.Number {
		case erNoSuchTable, erNoSuchDatabase, erBadField:
			hint = ": the table and what belongs to it are missing or of another version: run the statements that mysqlstore.Schema returns, or set Options.Create"
		case erTableDenied, erColumnDenied:
			hint = fmt.Sprintf(": grant the user SELECT on %[1]s and %[1]s_floor, and to candidates INSERT and UPDATE on %[1]s too", c.names.bare)
		case erNoSuper:
			hint = ": with a binlog, triggers are made by a user with SUPER, or with log_bin_trust_function_creators=1"
		}
	}
	return fmt.Errorf("%w: table %s: %w%s", class, c.names.bare, err, hint)
}
