//go:build !linux

package main

import (
	"context"
	"errors"
)

func run(context.Context, []string) error { return errors.New("only on Linux") }
