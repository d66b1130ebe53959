package simulator

// An outside carries out calls beyond the bubble, for engines that do I/O. The
// driver waits for each on a channel that was made out there: for the bubble it
// is busy, and no time passes.
type outside struct {
	engine Engine // nil: there is none, and no goroutine
	calls  chan func()
	done   chan struct{}
}

func newOutside(engine Engine) *outside {
	o := &outside{engine: engine, calls: make(chan func()), done: make(chan struct{})}
	if engine == nil {
		return o
	}
	go func() {
		for call := range o.calls {
			call()
			o.done <- struct{}{}
		}
	}()
	return o
}

// do returns when call has.
func (o *outside) do(call func()) {
	if o.engine == nil {
		call()
		return
	}
	o.calls <- call
	<-o.done
}

func (o *outside) close() { close(o.calls) }
