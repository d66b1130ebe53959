package server

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
)

// errorPages reads the error pages of a file; nil if it has none.
func errorPages(f *config.File) (gateway.ErrorPages, error) {
	if len(f.ErrorPages) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	pages := make(gateway.ErrorPages, len(f.ErrorPages))
	for text, path := range f.ErrorPages {
		page, err := config.ReadPage(path)
		if err != nil {
			return nil, fmt.Errorf("error_pages.%s: %w", text, err)
		}
		status, err := strconv.Atoi(strings.TrimSuffix(text, "xx"))
		if err != nil {
			return nil, fmt.Errorf("error_pages: %q is not a status", text)
		}
		pages[status] = &page
	}
	return pages, nil
}
