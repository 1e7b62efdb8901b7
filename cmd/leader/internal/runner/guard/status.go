package guard

// The exit statuses that a shell gives, too.
const (
	ExitCannotRun = 126 // the program was found and could not be started
	ExitSignal    = 128 // + n: signal n ended it, or us while it did not run
)
