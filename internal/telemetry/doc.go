// Package telemetry reports each request of a site and its answer to sinks, such as metrics
// and the access log, and the work of the cache to observers:
//
//	edge ──► Recorder ──► site ──► cache
//	            │                    │
//	            │ Exchange           │ isr.Operation, isr.Event
//	            ▼                    ▼
//	          Sinks              Observers
//
// The cache fills the isr.Report of the Exchange while it serves the request. A hit in
// memory costs no allocation here, and calls no Observer.
package telemetry
