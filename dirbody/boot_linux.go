package dirbody

import (
	"os"
	"strings"
)

// bootID identifies the time since the machine was started (random(4)); empty if it is unknown.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	trimmed := strings.TrimSpace(string(id))
	if err != nil || len(trimmed) > 64 || strings.Trim(trimmed, "0123456789abcdef-") != "" {
		return ""
	}
	return trimmed
}
