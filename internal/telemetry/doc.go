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
//
// The packages below it are the sinks and observers: metrics for Prometheus and OTLP, spans
// (tracing), a line per request (accesslog), and the last hour in memory (live), which the
// console shows. Package otlp has what the exports of metrics and traces share.
package telemetry
