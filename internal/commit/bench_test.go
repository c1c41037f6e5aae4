package commit

import (
	"fmt"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// BenchmarkMachine measures the machine itself for 10,000 binds in gangs of 50.
func BenchmarkMachine(b *testing.B) {
	var decisions []model.Decision
	for g := range 200 {
		var names []string
		for n := range 50 {
			names = append(names, fmt.Sprintf("p%d-%d", g, n))
		}
		decisions = append(decisions, binds(fmt.Sprintf("j%d", g), names...))
	}
	for b.Loop() {
		m, now := New(Options{}), start
		for _, decision := range decisions {
			m.Submit(now, decision)
		}
		for !m.Idle() {
			for _, call := range m.Calls(now) {
				now = now.Add(time.Millisecond)
				m.Reply(now, Reply{ID: call.ID})
			}
		}
	}
}
