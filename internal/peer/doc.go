// Package peer lets the processes of a fleet notify each other of what they have done, so that none
// has to look for it in the table again and again, and send each other the bodies of pages:
//
//	waiting process ── POST /v1/lease {key} ──► holder of the lease ── its flight ends ──► reply
//	purging process ── POST /v1/log {seq} ────► all other processes ── each reads the log ─► reply
//	reading process ── POST /v1/body {body} ──► one that may have it ── its memory, disk ──► the body
//
// Every message is a hint. A process that gets one reads the table, which
// decides; a process that gets none, or a wrong one, finds out by reading the table as if there
// were no peers. So a peer that lies, is slow or is dead costs a few reads of the table, and a
// fleet without peers differs in latency only.
//
// Processes have a secret in common, of at least [MinSecret] bytes. Requests are authenticated
// by an HMAC over both addresses, the time, a nonce, the path and the body, so that a request can
// neither be repeated nor be sent on to another process; replies by an HMAC over the nonce, the
// status and the body. A body of a page is authenticated by the digest that its reader has from the
// table. Requests for it change nothing, so that their repetition is not refused: otherwise a process
// that reads many would use up the nonces that its peers remember.
//
// Messages are not encrypted: keys and bodies of pages can be read on the network between the
// processes, which is to be private.
package peer

// The files:
//
//	auth.go    authenticates messages
//	client.go  asks and notifies
//	server.go  answers
//	body.go    asks for bodies of pages, and sends them
