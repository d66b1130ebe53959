package site_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

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

func TestGetAllRequestsEachPageOnce(t *testing.T) {
	s := site.New()
	server := httptest.NewServer(s)
	defer server.Close()
	if err := site.GetAll(t.Context(), server.URL+"/p/", 100); err != nil || s.Served() != 100 {
		t.Errorf("served %d, error %v, want 100", s.Served(), err)
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if err := site.GetAll(t.Context(), broken.URL+"/p/", 100); err == nil {
		t.Error("no error for pages that do not exist")
	}
}
