// Package sites has only tests: real sites of several frameworks are served through the real
// isr serve, and compared with their direct responses. The sites are the folders below this
// one; ./test builds them.
package sites
