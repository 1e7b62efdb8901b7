module github.com/seed-ff2cb582/leader/store/redisstore

go 1.26.0

require github.com/seed-ff2cb582/leader v0.0.0
