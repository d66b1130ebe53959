package s3body_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/store"
)

// A server may refuse to delete some of the objects of a batch: what comes before the first of
// them is deleted.
func TestDeleteBatchRefusedInPart(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		deleted int
		denied  bool
		failed  bool
	}{
		"AccessDenied":  {1, true, true},
		"InternalError": {1, false, true},
		"NoSuchKey":     {4, false, false},
	} {
		bodies := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, "<DeleteResult><Error><Key>bodies/3</Key><Code>%[1]s</Code></Error><Error><Key>bodies/1</Key><Code>%[1]s</Code><Message>why</Message></Error></DeleteResult>", code)
		})
		n, err := store.DeleteBodies(t.Context(), bodies, []string{"bodies/0", "bodies/1", "bodies/2", "bodies/3"})
		if n != want.deleted || errors.Is(err, store.ErrDenied) != want.denied || (err != nil) != want.failed {
			t.Errorf("%s: %d deleted, %v", code, n, err)
		}
		if err != nil && !strings.Contains(err.Error(), "bodies/1") {
			t.Errorf("%s: %v does not name the body", code, err)
		}
	}
}

// A server without DeleteObjects gets a DeleteObject for each body; other failures are errors.
func TestDeleteBatchWithoutDeleteObjects(t *testing.T) {
	t.Parallel()
	for status, supported := range map[int]bool{400: false, 405: false, 501: false, 403: true, 404: true} {
		var mu sync.Mutex
		var gone []string
		bodies := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				writeError(w, r, status, "Some")
				return
			}
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, strings.TrimPrefix(r.URL.Path, "/bucket/"))
			w.WriteHeader(http.StatusNoContent)
		})
		keys := []string{"bodies/0", "bodies/1"}
		n, err := store.DeleteBodies(t.Context(), bodies, keys)
		if supported && (n != 0 || err == nil || len(gone) > 0) {
			t.Errorf("%d: %d deleted, %v", status, n, err)
		}
		if !supported && (n != 2 || err != nil || !slices.Equal(gone, keys)) {
			t.Errorf("%d: %d deleted (%q), %v", status, n, gone, err)
		}
	}
}
