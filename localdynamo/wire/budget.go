package wire

import (
	"slices"
	"sync"
)

// budget is the memory for the bodies of all requests in flight. Without it, clients
// that announce large bodies and stall could exhaust the machine's memory.
type budget struct {
	mu   sync.Mutex
	left int64 // guarded by mu
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// grow makes room for n more bytes of a body. Memory beyond firstRead is taken from the
// budget until the request ends.
func (x *exchange) grow(dst []byte, n int) ([]byte, error) {
	if cap(dst)-len(dst) >= n {
		return dst, nil
	}
	if more := int64(len(dst) + n - max(cap(dst), firstRead)); more > 0 {
		if !x.bodies.take(more) {
			return dst, clientFault("ThrottlingException", "The bodies of all requests in flight exceed the memory limit; retry later")
		}
		x.held += more
	}
	return slices.Grow(dst, n), nil
}
