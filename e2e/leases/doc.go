// Package leases has only tests: processes that fight for leases through the real
// SDK, and a judge of what they were told.
//
//	test ──starts, kills, freezes──► process ──► worker ──► dynamostore ─┐
//	  ▲                                 │  └────► worker ──► dynamostore ─┼─► DynamoDB Local,
//	  └──every call and every answer────┘                                 │   or isr dynamodb
//	     with the machine's monotonic time    process ──► worker ─► … ────┘
//
// A history of calls is right if it is linearizable: if there is an order of the
// calls, in which none stands before one that had ended when it began, and in which
// a page that serves one call at a time (see page) gives every answer that was
// given. A call without an answer, of a process that was killed or of a caller who
// gave up, may take effect at any later time, or never.
package leases
