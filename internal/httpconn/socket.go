package httpconn

// An afterRead is what comes after a read of [socket.ReadEach].
type afterRead int

const (
	stopReading afterRead = iota
	readAgain             // and wait if there is nothing to read
	// awaitBytes waits for bytes that come from now on, without a read. The end of the stream is missed if it
	// came before the last bytes were read: the caller must have set a read deadline, and call ReadEach again.
	awaitBytes
)
