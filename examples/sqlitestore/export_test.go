package sqlitestore

import "database/sql"

// DB is what an operator's tool would open.
func (s *Store) DB() *sql.DB { return s.db }
