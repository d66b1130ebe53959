package page

import (
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// Every field of an entry survives its compact form, also fields that are added later.
func TestEntryText(t *testing.T) {
	full := store.Entry{}
	fields := reflect.ValueOf(&full).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Interface().(type) {
		case string:
			f.SetString("text of " + fields.Type().Field(i).Name)
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 1, 1+i, 0, 0, i, 1_000_000*i, time.UTC)))
		case int, int64, time.Duration:
			f.SetInt(int64(-1000 * i))
		case []string:
			f.Set(reflect.ValueOf([]string{"a", "", "b"}))
		case http.Header:
			f.Set(reflect.ValueOf(http.Header{"Link": {"x", "y"}, "Content-Type": {"text/html"}}))
		case netip.AddrPort:
			f.Set(reflect.ValueOf(netip.MustParseAddrPort("[fd00::5]:7946")))
		case bool: // entries with Foreign or Withdrawn have no text
		default:
			t.Fatalf("a field of the type %s: add it to entryText", f.Type())
		}
	}
	full.SHA256 = strings.Repeat("0a", 32)
	own := full
	own.BodyKey, own.PinnedUntil = "bodies/ab/"+own.GenerationID, store.Forever()
	for name, e := range map[string]store.Entry{"full": full, "own body": own, "empty": {SHA256: full.SHA256}} {
		text, ok := Pack(&e)
		if got := Unpack(text); !ok || !reflect.DeepEqual(normalized(got), normalized(e)) {
			t.Errorf("%s: %+v, want %+v", name, got, e)
		}
	}
	for name, change := range map[string]func(*store.Entry){
		"foreign": func(e *store.Entry) { e.Foreign = true }, "withdrawn": func(e *store.Entry) { e.Withdrawn = true },
		"no digest": func(e *store.Entry) { e.SHA256 = "" }, "upper case": func(e *store.Entry) { e.SHA256 = strings.Repeat("0A", 32) },
	} {
		e := full
		change(&e)
		if _, ok := Pack(&e); ok {
			t.Errorf("%s: the entry has a text", name)
		}
	}
}

// normalized returns an entry whose times compare equal if their moments do.
func normalized(e store.Entry) store.Entry {
	for _, at := range []*time.Time{&e.GeneratedAt, &e.Expires, &e.PinnedUntil, &e.AssertedAt} {
		*at = at.UTC()
	}
	return e
}
