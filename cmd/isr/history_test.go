package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
)

// Deliveries to the caches in front follow the interval at which this server reads the log.
func TestDeliveryDelay(t *testing.T) {
	client, _ := localdynamotest.Open(t)
	if err := dynamostore.CreateTable(t.Context(), client, "isr"); err != nil {
		t.Fatal(err)
	}
	meta, err := dynamostore.New(client, "isr", dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := dirbody.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cache, err := isr.New(meta, bodies, isr.Config{Poll: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	var running atomic.Pointer[isr.Cache]
	shared := new(serveCommand)
	shared.Table = "isr"
	embedded, delay := new(serveCommand).deliveryDelay(&running), shared.deliveryDelay(&running)
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
