package telemetry

// Hit reports a hit that was answered without [Recorder.Serve], and whose response does not name its
// request: its exchange, which is complete except for the id of the request.
func (rec *Recorder) Hit(e *Exchange) {
	if rec.cfg.IdentifyHits() && rec.cfg.RequestIDs != RequestIDsOff {
		e.RequestID = rec.ids.of(e.Request)[0]
	}
	for _, s := range rec.cfg.Sinks {
		s.Done(e)
	}
}
