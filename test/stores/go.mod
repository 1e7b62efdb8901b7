module github.com/seed-ff2cb582/leader/test/stores

go 1.26.0
