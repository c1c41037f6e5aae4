package commit

import (
	"testing"
	"time"
)

// outright is the deletion of one pod for a job.
func outright(p *player) {
	deletion := evictions("j", "v")
	deletion.Evictions[0].DeletePod = true
	p.submit(deletion)
	p.expectCalls("Mark v")
}

// TestAVictimThatIsMarkedTooLateIsNotDeleted: it ends by itself while its condition is being set, or the deadline has passed.
func TestAVictimThatIsMarkedTooLateIsNotDeleted(t *testing.T) {
	p := play(t, Options{})
	outright(p)
	p.cancel("v")
	p.reply("v", nil)
	p.expectCalls("")
	p.pass(time.Hour)
	p.said = nil
	p.end()

	p = play(t, Options{})
	outright(p)
	p.pass(time.Hour)
	p.reply("v", nil)
	p.expectCalls("")
	p.pass(time.Hour)
	p.said = nil
	p.end()
}
