// Package leases has only tests: processes contend for leases through the real SDK,
// and a linearizability checker verifies the answers they got.
//
//	test ──starts, kills, freezes──► process ──► worker ──► dynamostore ─┐
//	  ▲                                 │  └────► worker ──► dynamostore ─┼─► DynamoDB Local,
//	  └──every call and every answer────┘                                 │   or isr dynamodb
//	     with the machine's monotonic time    process ──► worker ─► … ────┘
//
// A history of calls is correct if it is linearizable: there is an order of the calls
// that keeps a call after every call that had returned when it began, and in which a
// page that serves one call at a time (see page) gives the recorded answers. A call
// without an answer, because its process was killed or its context ended, may take
// effect at any later time, or never.
package leases
