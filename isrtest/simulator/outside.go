package simulator

// An outside executes calls outside the bubble, for engines that do I/O. The driver waits for
// each on a channel that was made outside the bubble: that wait does not count as durably
// blocked, so no time passes.
type outside struct {
	engine Engine // nil: no engine and no goroutine
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

// do runs call and returns when it is done.
func (o *outside) do(call func()) {
	if o.engine == nil {
		call()
		return
	}
	o.calls <- call
	<-o.done
}

func (o *outside) close() { close(o.calls) }
