package scheduler

import (
	"sync"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Mailbox carries events, replies of workers and the result of the election to the loop. It has no bound, so that no informer
// is ever held up, and is safe for concurrent use.
type Mailbox struct {
	mu      sync.Mutex
	content inbox
	// ready holds one token while there is something to take.
	ready chan struct{}
}

// inbox is what came in since the last look, each kind in its order.
type inbox struct {
	events []cluster.Event
	// groups are the events about what gangs need; no order between them and the others matters.
	groups  []cluster.GroupEvent
	replies []commit.Reply
	// profiles are what makes the next profiles.
	profiles []func() *engine.Profile
	// inspections are requests to read the snapshot between two cycles.
	inspections []debugapi.Inspection
	// findings are the newest; nil when none came.
	findings map[model.JobKey]Finding
	lead     bool
}

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Event delivers what a watch saw.
func (m *Mailbox) Event(event cluster.Event) {
	m.put(func(l *inbox) {
		if group, is := event.(cluster.GroupEvent); is {
			l.groups = append(l.groups, group)
		} else {
			l.events = append(l.events, event)
		}
	})
}

// Reply delivers the answer to a call.
func (m *Mailbox) Reply(reply commit.Reply) {
	m.put(func(l *inbox) { l.replies = append(l.replies, reply) })
}

// Lead tells the loop that it may decide from now on: this process holds the Lease, and every event that was there at the
// start has been delivered.
func (m *Mailbox) Lead() {
	m.put(func(l *inbox) { l.lead = true })
}

// Reconfigure delivers a new configuration: next is called between two cycles, on the loop's goroutine, and what it returns
// is the profile from then on. With nil nothing changes. Those that are delivered together are called in their order.
func (m *Mailbox) Reconfigure(next func() *engine.Profile) {
	m.put(func(l *inbox) { l.profiles = append(l.profiles, next) })
}

// inspect has the loop call read between two cycles.
func (m *Mailbox) inspect(read debugapi.Inspection) {
	m.put(func(l *inbox) { l.inspections = append(l.inspections, read) })
}

func (m *Mailbox) advise(findings map[model.JobKey]Finding) {
	m.put(func(l *inbox) { l.findings = findings })
}

func (m *Mailbox) put(write func(*inbox)) {
	m.mu.Lock()
	write(&m.content)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// takeGroups takes the events about what gangs need and leaves the rest.
func (m *Mailbox) takeGroups() []cluster.GroupEvent { return takeOne(m, &m.content.groups) }

// takeReplies takes the replies and leaves the rest.
func (m *Mailbox) takeReplies() []commit.Reply { return takeOne(m, &m.content.replies) }

func takeOne[T any](m *Mailbox, of *[]T) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := *of
	*of = nil
	return taken
}

func (m *Mailbox) take() inbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.content
	m.content = inbox{}
	return taken
}
