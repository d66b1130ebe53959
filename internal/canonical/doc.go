// Package canonical brings the parts of a URL to the one form that cache keys have
// (RFC 3986, section 6.2), so that equivalent requests share a page.
package canonical
