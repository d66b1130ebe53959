package site_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/bench/internal/site"
)

func TestPagesDifferAndHaveTheSameLength(t *testing.T) {
	s := site.New()
	seen := make(map[string]bool)
	for _, path := range []string{site.Page, site.Zipped, "/p/1", "/p/2"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Body.Len() != site.Size || seen[w.Body.String()] {
			t.Errorf("%s: %d bytes, want %d that no other page has", path, w.Body.Len(), site.Size)
		}
		seen[w.Body.String()] = true
	}
	if s.Served() != 4 {
		t.Errorf("served %d, want 4", s.Served())
	}
}

func TestZippedPageForClientsThatAcceptIt(t *testing.T) {
	s := site.New()
	r := httptest.NewRequest(http.MethodGet, site.Zipped, http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil || string(body) != string(s.Body(site.Zipped)) {
		t.Errorf("%d bytes, error %v, want the page", len(body), err)
	}
}

func TestIdleSiteHasAnsweredAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := site.New()
		began := time.Now()
		for i := range 3 { // the second before the first is answered, the third a moment after it
			time.AfterFunc(time.Duration(i)*50*time.Millisecond, func() {
				s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, site.Slow+"1", http.NoBody))
			})
		}
		synctest.Wait()
		if err := s.AwaitIdle(t.Context(), 60*time.Millisecond); err != nil || s.Served() != 3 {
			t.Errorf("served %d, error %v, want 3", s.Served(), err)
		}
		if last := 100*time.Millisecond + site.FirstHalf + site.SecondHalf; time.Since(began) < last {
			t.Errorf("idle after %v, but the last response ended after %v", time.Since(began), last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.AwaitIdle(ctx, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the error of the context", err)
		}
	})
}

func TestGetAllRequestsEachPageOnce(t *testing.T) {
	s := site.New()
	server := httptest.NewServer(s)
	defer server.Close()
	if err := site.GetAll(t.Context(), server.URL+"/p/", 5, 104); err != nil || s.Served() != 100 {
		t.Errorf("served %d, error %v, want 100", s.Served(), err)
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if err := site.GetAll(t.Context(), broken.URL+"/p/", 1, 100); err == nil {
		t.Error("no error for pages that do not exist")
	}
}
