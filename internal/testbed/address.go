package testbed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// FreeAddress returns an address of this machine on which nothing listens, for a server that another
// process starts, or that listens there again after a restart. Its port is below those that systems give
// to connections and to listeners of port 0, so that no other program gets it in between.
func FreeAddress() (string, error) {
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(20_000)))
		switch {
		case err == nil:
			return l.Addr().String(), l.Close()
		case !errors.Is(err, syscall.EADDRINUSE):
			return "", err
		}
	}
}
