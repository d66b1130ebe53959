package assess

import (
	"testing"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
)

func TestBodies(t *testing.T) {
	isrtest.BodyStore(t, func(*testing.T) store.BodyStore { return newBodies() })
}
