package commit

import (
	"testing"
	"time"
)

// outright is the deletion of one pod for the sake of a job.
func outright(p *player) {
	deletion := evictions("j", "v")
	deletion.Evictions[0].DeletePod = true
	p.submit(deletion)
	p.expectCalls("Mark v")
}

// TestAVictimThatIsMarkedTooLateIsNotDeleted: while it is being marked it goes by itself, or the time is over.
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
