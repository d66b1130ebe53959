// Package redirect decides which requests a site redirects, and where to.
//
// The problem: a site that has moved its pages has a few patterns and many single addresses to redirect, up to 100,000. The
// answer must cost a request nothing that is not redirected, and nobody may be sent to another site by an address that
// they have made up.
//
// The model: a rule has a pattern of routes (see package routing), and a target, in which "{name}" stands for what a
// wildcard of the pattern matches. An exact rule has an address instead of a pattern, and is looked up in a map.
//
//	request ─► an exact rule, with the host or without ─► the most specific pattern ─► Location
//
// The guarantees:
//
//   - The scheme and the host of a target are part of the rule. What a visitor sends becomes part of the path or the query,
//     percent-encoded: it never begins a host ("//evil.example"), and never ends a line.
//   - Rules that lead back to themselves, and two rules for one address, are errors of New. All errors are reported at once.
//   - A request that is not redirected costs no allocation.
package redirect
