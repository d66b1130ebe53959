// Package sites has only tests: two real sites, one of Next.js and one of Django,
// served through the real isr serve, and compared with what they answer without
// it. The sites are the folders below this one; ./test builds them.
package sites
