// Package handover passes listening sockets from one process to the next, so that a restart or an upgrade refuses no
// connection.
//
// A process gets sockets in two ways. A service manager hands them in by the protocol of sd_listen_fds(3) of systemd:
// it keeps them open, and while no process accepts connections, they wait in the kernel's queue. Or the process itself
// starts its successor, which gets its sockets, and the lock of its data folder:
//
//	predecessor                                  successor
//	    │ Start: sockets, lock, channel ────────────► Receive
//	    │ serves                                      reads and checks its configuration
//	    │ Prepared ◄──────────────── "prepared" ───── Await
//	    │ finishes requests, closes the store         waits; connections wait in the queue of the kernel
//	    │ Proceed ───────────────────── "go" ───────► opens the store, accepts connections
//	    │ Served ◄─────────────────── "serving" ───── Serving
//	    ends                                          serves
//
// The predecessor ends only once the successor serves. If the successor ends before, the predecessor still has the sockets and the
// lock, and serves again from [Successor.Sockets]. The lock is a flock(2): both processes have the same open file,
// so that it is never free in between.
package handover

// The files:
//
//	sockets.go    the sockets that a process was given, and those that it has opened
//	successor.go  both ends of the channel between a process and its successor
