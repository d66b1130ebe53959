// Package sites has only tests: a real Next.js site and a real Django site are served
// through the real isr serve, and compared with their direct responses. The sites are
// the folders below this one; ./test builds them.
package sites
