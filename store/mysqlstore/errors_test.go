package mysqlstore

import (
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
)

// The driver has a limit (maxAllowedPacket), and refuses a larger statement
// before a byte is sent. No repetition gets past it.
func TestValueThatTheDriverFindsTooLargeIsAPermanentError(t *testing.T) {
	err := fmt.Errorf("key a: %w", mysql.ErrPktTooLarge)
	for what, classify := range map[string]func(error) error{"write": classifyWrite, "read": classifyRead, "connection": classifyConnect} {
		if class := store.Classify(classify(err)); class != store.Permanent {
			t.Errorf("a %s of too large a packet is %v", what, class)
		}
	}
}
