module github.com/seed-ff2cb582/leader/store/mysqlstore

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/seed-ff2cb582/leader v0.0.0
)

require filippo.io/edwards25519 v1.2.0 // indirect
