package commit

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/pkg/model"
)

// outright is the deletion of one pod for a job.
func outright(p *player) {
	deletion := evictions("j", "v")
	deletion.Evictions[0].Method = model.ByDeletion
	p.submit(deletion)
	p.expectCalls("DisruptionTarget v")
}

// TestAVictimIsDeletedWhereItsBudgetsForbidTheEviction, if the decision says so: marked first, as where budgets are not asked.
// Another refusal is one all the same.
func TestAVictimIsDeletedWhereItsBudgetsForbidTheEviction(t *testing.T) {
	preferred := evictions("j", "free", "kept", "several", "denied")
	for i := range preferred.Evictions {
		preferred.Evictions[i].Method, preferred.Evictions[i].GraceSeconds = model.ByEvictionOrDeletion, 300
	}
	p := play(t, Options{})
	p.submit(preferred)
	p.expectCalls("Evict free, Evict kept, Evict several, Evict denied")
	p.replies(nil, "free")
	p.replies(budget(), "kept")
	p.replies(apierrors.NewInternalError(errors.New("This pod has "+multiplePDBs)), "several")
	p.expect("Evicted free")
	p.expectCalls("DisruptionTarget kept, DisruptionTarget several")
	if mark := p.inFlight[len(p.inFlight)-1].Write.(*PodCondition); mark.Condition.Type != "DisruptionTarget" || mark.Pod != pod("several") {
		t.Errorf("the mark is %+v", mark)
	}
	p.replies(nil, "kept", "several")
	p.expectCalls("Delete kept, Delete several")
	if grace := p.inFlight[len(p.inFlight)-1].GraceSeconds; grace != 300 {
		t.Errorf("the deletion gives the pod %d s", grace)
	}
	p.replies(nil, "kept", "several")
	p.replies(errDenied, "denied")
	p.expect("Evicted kept", "Evicted several", "EvictFailed denied refused", "VictimsGone j pods=3 members=0 failed=1")
	p.end()
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
