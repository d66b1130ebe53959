package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Complaints are log lines about single pages: that a store failed, or that a page must not be
// stored. There may be thousands a second: one in ten seconds is written, the others are counted.
type Complaints struct {
	logger *slog.Logger
	level  slog.Level

	mu   sync.Mutex
	next time.Time // guarded by mu: when the next line may be written
	held int       // guarded by mu: lines suppressed since the last one
}

// NewComplaints returns complaints that are logged at a level.
func NewComplaints(logger *slog.Logger, level slog.Level) *Complaints {
	return &Complaints{logger: logger, level: level}
}

// complaintPause is the least time between such lines.
const complaintPause = 10 * time.Second

// Log logs a line, or counts it. It is safe for concurrent use.
func (c *Complaints) Log(msg string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.held++
		return
	}
	c.logger.Log(context.Background(), c.level, msg, append(args, "more_since_last", c.held)...)
	c.next, c.held = now.Add(complaintPause), 0
}
