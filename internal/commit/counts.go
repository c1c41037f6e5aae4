package commit

// Counts are totals since the machine was created, and its present content.
type Counts struct {
	// Sent counts attempts by kind, Retried those of them that were not the first.
	Sent, Retried [kinds]uint64
	// Replaced counts writes that were never made because a newer one made them obsolete, DroppedEvents those given up.
	Replaced, DroppedEvents uint64
	// Ready, InFlight and Resting are the calls to be sent, sent, and to be sent again; Waiting those behind another call
	// for the same object.
	Ready, InFlight, Resting, Waiting int
}

// Counts returns the machine's totals and content.
func (m *Machine) Counts() Counts {
	counts := m.counts
	counts.Ready, counts.InFlight, counts.Resting = m.readyLength(), len(m.sent), len(m.resting.items)
	for _, line := range m.targetQueues {
		counts.Waiting += len(line) - 1
	}
	return counts
}

func (m *Machine) readyLength() int {
	n := m.turns.length
	for kind := range m.queues {
		n += m.queues[kind].length
	}
	return n
}
