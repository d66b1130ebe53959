package localdynamo_test

import (
	"testing"

	"github.com/facetheory/isr/localdynamo"
)

func TestSmoke(t *testing.T) {
	db := open(t, localdynamo.Options{})
	put(t, db, item{"pk": str("a"), "sk": str("b"), "n": num("1.0")})
	t.Log(get(t, db, "a", "b")["n"])
}
