package scheduler

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// TestDeletedPodsAreDropped: of the pods that come and go one after the other, on a node that others chose, no more are held than
// the journal of changes keeps, by a process that leads and by one that does not.
func TestDeletedPodsAreDropped(t *testing.T) {
	const most = 1100
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leads: %t", leads), func(t *testing.T) {
			w := newWorld(t)
			if !leads {
				w.mailbox.take()
			}
			w.node("n1", "8")
			w.member("none", 0)
			template := w.pods["none-0"]
			var seen []weak.Pointer[corev1.Pod]
			for i := range 3 * most {
				one := template.DeepCopy()
				one.Name, one.UID = fmt.Sprint("p-", i), types.UID(fmt.Sprint("p-", i))
				one.Spec.NodeName, one.Spec.SchedulerName = "n1", "other"
				w.meta(one)
				seen = append(seen, weak.Make(one))
				w.mailbox.Event(&cluster.PodSeen{Pod: one})
				w.playBy(t.Context(), time.Second, time.Second)
				w.mailbox.Event(&cluster.PodSeen{Pod: one, Gone: true})
				w.playBy(t.Context(), time.Second, time.Second)
			}
			runtime.GC()
			held := 0
			for _, one := range seen {
				if one.Value() != nil {
					held++
				}
			}
			if held > most {
				t.Errorf("%d of %d deleted pods are held, want at most %d", held, len(seen), most)
			}
			if w.loop.Leading() != leads {
				t.Errorf("leads: %t", w.loop.Leading())
			}
			runtime.KeepAlive(w)
		})
	}
}
