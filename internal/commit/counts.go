package commit

import (
	"errors"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Counts are totals since the last call of TakeCounts, and the machine's present content.
type Counts struct {
	// Answers counts the answers to calls, by kind and by what Code says of the answer.
	Answers map[Answer]uint64
	// DroppedEvents counts events that were given up: too many were to be sent, or no attempt succeeded.
	DroppedEvents uint64
	// Paused is how long the API server, being busy, has made all calls wait, WritesPaused how long writes alone. A pause counts
	// as a whole when it begins.
	Paused, WritesPaused time.Duration
	// Queued are the calls to be sent, by kind, without those that wait for another call for the same object, or for their next
	// attempt; CallDeleteStarted counts as CallBind, whose turns it shares. InFlight are the calls without an answer yet.
	Queued   [kinds]int
	InFlight int
}

// Answer is a kind of call and what was answered.
type Answer struct {
	Kind Kind
	Code string
}

// The codes of answers that are no status of the API server, which is its own code, such as 409.
const (
	// CodeOK: the call was confirmed.
	CodeOK = "ok"
	// CodeUnsent: nothing was sent, because the Lease was not held or the API server could not be reached.
	CodeUnsent = "unsent"
	// CodeError: there was no answer, or one of the Preparer or a binder that is no status.
	CodeError = "error"
)

// codeOf returns the code of an answer.
func codeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil || errors.Is(err, ErrNotBound) || errors.Is(err, ErrElsewhere):
		return CodeOK
	case errors.Is(err, ErrNotLeading) || neverSent(err):
		return CodeUnsent
	case errors.As(err, &status) && status.Status().Code > 0:
		return strconv.Itoa(int(status.Status().Code))
	default:
		return CodeError
	}
}

// answered counts an answer.
func (m *Machine) answered(kind Kind, err error) {
	if m.counts.Answers == nil {
		m.counts.Answers = map[Answer]uint64{}
	}
	m.counts.Answers[Answer{kind, codeOf(err)}]++
}

// TakeCounts returns the totals since its last call, and what the machine has now.
func (m *Machine) TakeCounts() Counts {
	counts := m.counts
	m.counts = Counts{}
	for kind := range kinds {
		counts.Queued[kind] = m.queues[kind].length
	}
	counts.InFlight = len(m.sent)
	return counts
}

// readyLength returns how many calls are to be sent: those that prepare or release, the other decisions, and the writes.
func (m *Machine) readyLength() (preparing, decisions, writes int) {
	for kind := range kinds {
		switch n := m.queues[kind].length; {
		case kind.prepares():
			preparing += n
		case kind.isDecision():
			decisions += n
		default:
			writes += n
		}
	}
	return preparing, decisions, writes
}
