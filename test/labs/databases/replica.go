package databases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"testing"
)

// Replica starts a replica of a MariaDB server for one test. It is read-only,
// and reaches its primary at an address: the primary's own, or a proxy's. It
// has what the primary has, from its first write on, when this returns.
func (l *Lab) Replica(tb testing.TB, primary *Server, addr string, settings ...string) *Server {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	r := l.OwnMariaDB(tb, append([]string{"--server-id=2", "--read-only=1", "--log-slave-updates", "--slave-net-timeout=60"}, settings...)...)
	r.Exec(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = 'lab', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos",
		host, port), "START SLAVE")
	r.Applied(primary.Position())
	return r
}

// Position is where the binlog of a MariaDB server ends.
func (o *Server) Position() (gtid string) {
	o.tb.Helper()
	if err := o.DB().QueryRow("SELECT @@gtid_binlog_pos").Scan(&gtid); err != nil {
		o.tb.Fatalf("databases: %v", err)
	}
	return gtid
}

// Applied waits until a replica has applied all up to a position of its
// primary.
func (o *Server) Applied(gtid string) {
	o.tb.Helper()
	o.eventually("the replica has applied "+gtid, func(ctx context.Context, db *sql.DB) (bool, error) {
		var late int
		err := db.QueryRowContext(ctx, "SELECT MASTER_GTID_WAIT(?, 10)", gtid).Scan(&late)
		return late == 0, err
	})
}

// takeOver makes a replica of MariaDB the primary, as tools for failovers do:
// it applies all that it has received, and takes writes then.
func (o *Server) takeOver() {
	o.tb.Helper()
	o.Exec("STOP SLAVE IO_THREAD")
	received, err := o.received()
	if err != nil {
		o.tb.Fatalf("databases: %v", err)
	}
	o.Applied(received)
	o.Exec("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")
}

// received is the position up to which a replica has what its primary sent.
func (o *Server) received() (gtid string, err error) {
	rows, err := o.DB().Query("SHOW SLAVE STATUS")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	if !rows.Next() {
		return "", errors.Join(errors.New("the server is not a replica"), rows.Err())
	}
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = new(sql.RawBytes)
		if name == "Gtid_IO_Pos" {
			values[i] = &gtid
		}
	}
	return gtid, rows.Scan(values...)
}
