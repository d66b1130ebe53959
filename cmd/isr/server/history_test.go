package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/testbed"
)

// Deliveries to the caches in front follow the interval at which this server reads the log.
func TestDeliveryDelay(t *testing.T) {
	cache := testbed.Cache(t, testbed.Table(t), isr.Config{Poll: 3 * time.Second})
	var running atomic.Pointer[isr.Cache]
	shared := new(ServeCommand)
	shared.Table = "isr"
	embedded, delay := new(ServeCommand).deliveryDelay(&running), shared.deliveryDelay(&running)
	if d := embedded(); d != 0 {
		t.Errorf("one server waits %v for others", d)
	}
	if d := delay(); d < 20*time.Second {
		t.Errorf("%v before the server reads the log", d)
	}
	running.Store(cache)
	if d := delay(); d != 12*time.Second {
		t.Errorf("%v at an interval of 3s, want 12s", d)
	}
}
