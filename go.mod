module github.com/seed-ff2cb582/leader

go 1.26.0
