//go:build !unix

package databases

import "errors"

func kill(int) error { return errors.ErrUnsupported }

func freeze(int) error { return errors.ErrUnsupported }

func thaw(int) error { return errors.ErrUnsupported }
