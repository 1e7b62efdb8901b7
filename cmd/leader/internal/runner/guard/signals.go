//go:build unix

package guard

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Signals are the signals that are the program's. SIGHUP, SIGUSR1 and the like
// mean to a program what it makes of them. SIGTSTP and SIGCONT are not among
// them: what stops the candidate must not stop the program with it, but leaves
// the guard to end it. Nor is one that was ignored when the process began: the
// program inherits that (see app.UntilSignal).
func Signals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}, signal.Ignored)
}

// Ends reports whether a signal must end leader run. SIGHUP does not: it makes
// many programs read their configuration again.
func Ends(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT
}
