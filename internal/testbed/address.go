package testbed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// given has the ports that FreeAddress has tried or returned: a server may listen at one only much later.
var given sync.Map // of int

// FreeAddress returns an address of this machine on which nothing listens, for a server that another
// process starts, or that listens there again after a restart. Its port is below those that systems give
// to connections and to listeners of port 0, so that no other program gets it in between, and it returns none twice.
func FreeAddress() (string, error) {
	for {
		port := 12_000 + rand.IntN(20_000)
		if _, found := given.LoadOrStore(port, nil); found {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		switch {
		case err == nil:
			return l.Addr().String(), l.Close()
		case !errors.Is(err, syscall.EADDRINUSE):
			return "", err
		}
	}
}
