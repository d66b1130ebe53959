package testbed

import (
	"net"
	"os/exec"
	"sync"
	"testing"
)

// An address is free at once, also while processes are started, and no other call returns it.
func TestFreeAddress(t *testing.T) {
	stop := make(chan struct{})
	var starting sync.WaitGroup
	starting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = exec.Command("/bin/true").Run() // it need not exist
			}
		}
	})
	seen := make(map[string]bool)
	for range 50 {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s is returned twice", address)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	starting.Wait()
}
