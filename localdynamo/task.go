package localdynamo

import "time"

// taskRetry is the delay before a failed task, as on a full disk, is retried. The
// failure is not logged: requests that write report it too.
const taskRetry = 10 * time.Second

// runTask is the goroutine of work that requests leave behind. It does the work when
// the DB is opened, since Close or a crash may have interrupted it, and when it is woken.
func (db *DB) runTask(woken wakeUp, work func() error) {
	for {
		var retry <-chan time.Time
		if err := work(); err != nil {
			retry = time.After(taskRetry)
		}
		select {
		case <-woken:
		case <-retry:
		case <-db.closing:
			return
		}
	}
}

// A wakeUp holds one element if there is work to do.
type wakeUp chan struct{}

func (w wakeUp) wake() {
	select {
	case w <- struct{}{}:
	default: // a wake-up is already pending
	}
}
