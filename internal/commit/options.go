package commit

import "time"

// Options are the numbers of a Machine. A zero field has the default named with it.
type Options struct {
	// Workers is how many calls are in flight at most, of all kinds but those below; 64.
	Workers int
	// Writes is how many of these are in flight at most that are writes, so that no decision waits for a slow one; half of
	// Workers.
	Writes int
	// Preparing is how many of CallPrepare and CallRelease are in flight at most, beside those of Workers: they mostly wait,
	// and must not delay other binds; 4,096.
	Preparing int
	// PrepareTimeout is how long after its submission a decision may take to be prepared; 10 min.
	PrepareTimeout time.Duration
	// BindDeadline is how long after the first call of a decision another attempt may be made; 30 s, and more for many calls: see
	// Deadline.
	BindDeadline time.Duration
	// RequestTimeout is how long after its answer was lost a call may still take effect: the server works on it for up to the
	// Driver's Timeout, and a little more; 11 s. Only then does a CallGetPod that finds a pod without node show that it was
	// not bound. It does not count from when the call was handed out, since that may have waited for a worker, and for a
	// connection.
	RequestTimeout time.Duration
	// Backoff is the delay after the first failed attempt, doubled with each further one up to MaxBackoff, and shortened by
	// up to a quarter depending on the UID; 100 ms and 2 s.
	Backoff, MaxBackoff time.Duration
	// Burst is how many binds of one decision are sent before another decision has its turn; 256.
	Burst int
	// EventAttempts is how often an event is tried; 3. MaxEvents is how many are to be sent at most; 10,000. Beyond it the
	// newest of the namespace that has most of them is dropped.
	EventAttempts, MaxEvents int
}

// defaultPreparing is the default of Options.Preparing.
const defaultPreparing = 4096

func (o Options) withDefaults() Options {
	orDefault(&o.Workers, 64)
	orDefault(&o.Writes, (o.Workers+1)/2)
	orDefault(&o.Preparing, defaultPreparing)
	orDefault(&o.PrepareTimeout, 10*time.Minute)
	orDefault(&o.BindDeadline, 30*time.Second)
	orDefault(&o.RequestTimeout, 11*time.Second)
	orDefault(&o.Backoff, 100*time.Millisecond)
	orDefault(&o.MaxBackoff, 2*time.Second)
	orDefault(&o.Burst, 256)
	orDefault(&o.EventAttempts, 3)
	orDefault(&o.MaxEvents, 10_000)
	return o
}

// Deadline returns how long so many binds of one decision may take, with base for a few: a second more for each hundred, so
// that a large gang is not undone because the API server is slow.
func Deadline(base time.Duration, binds int) time.Duration {
	return base + time.Duration(binds/100)*time.Second
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
