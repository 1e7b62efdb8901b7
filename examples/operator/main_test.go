package main

import (
	_ "github.com/seed-ff2cb582/leader/test/natslab"
	_ "github.com/seed-ff2cb582/leader/test/stores/kubelab"
)
