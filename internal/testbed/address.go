package testbed

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
		if err := bindOnce(port); !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Sprintf("127.0.0.1:%d", port), err
		}
	}
}

// bindOnce binds a socket to a port for a moment. No process is started in it: that one would have the socket, too, until it
// executes its program.
func bindOnce(port int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}), syscall.Close(fd))
}
