package server

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A supervisor is the service manager that has started this process, systemd: it is told of
// the state of a server by the protocol of sd_notify(3), if the variable NOTIFY_SOCKET names
// its socket. It is safe for concurrent use.
type supervisor struct{ log *slog.Logger }

// ready says that the server serves, or that a reload has ended.
func (s supervisor) ready() { s.tell(daemon.SdNotifyReady) }

// reloading says that a reload begins. Callers must call the result when it has ended.
func (s supervisor) reloading() (done func()) {
	s.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return s.ready
}

// stopping says that the server shuts down, and how long that may take.
func (s supervisor) stopping(most time.Duration) {
	s.tell(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, most.Microseconds()))
}

func (s supervisor) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("failed to notify the service manager", "error", err)
	}
}
