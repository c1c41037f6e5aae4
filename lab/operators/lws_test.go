package operators

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/lab/harness"
)

func leaderWorkerSet() row {
	return row{
		operator: LeaderWorkerSet(), scheduler: "tutti", manifest: "lws.yaml", suffix: "-0",
		pods: 4, second: "serve-0-2", running: "Available",
	}
}

func TestLeaderWorkerSet(t *testing.T) {
	job := leaderWorkerSet()
	lab := in(t, job)
	t.Run("life", func(t *testing.T) { life(t, lab, job) })
	t.Run("two", func(t *testing.T) { two(t, lab, job) })
	t.Run("groups", func(t *testing.T) { twoGroups(t, lab, job) })
	t.Run("recreated", func(t *testing.T) { recreated(t, lab, job) })
	t.Run("leader ready", func(t *testing.T) { leaderReady(t, lab, job) })
}

// twoGroups of one LeaderWorkerSet start one after the other, each as a whole.
func twoGroups(t *testing.T, lab *stage, job row) {
	job.change = func(spec map[string]any) { spec["replicas"] = int64(2) }
	s := begin(t, lab, job)
	s.nodes("first", 7)
	s.refused(8, 4, "Unschedulable", "needs 4, 3 would fit")
	s.pods = 8
	s.nodes("second", 1)
	s.starts()
	s.says(job.running, "True")
}

// recreate has all of a group made again when a container of it restarts.
func recreate(spec map[string]any) {
	spec["leaderWorkerTemplate"].(map[string]any)["restartPolicy"] = "RecreateGroupOnPodRestart"
}

// recreated: the new group starts as a whole, as the first did.
func recreated(t *testing.T, lab *stage, job row) {
	job.change = recreate
	s := begin(t, lab, job)
	s.nodes("first", 4)
	s.starts()
	filler := s.lab.Pod(s.namespace, "filler", oneCPU, harness.ScheduledBy(s.scheduler))
	s.lab.Create(s, filler) // it is older than the pods of the new group, and has its place before them
	s.remakeGroup()
	s.refused(4, 0, "Unschedulable", "needs 4, 3 would fit")
	s.remove(filler)
	s.starts()
}

// remakeGroup lets a container of a worker restart, as a kubelet would write it, and waits until the group has another leader.
func (s *story) remakeGroup() {
	s.Helper()
	before := s.leader()
	worker := s.member("serve-0-2")
	worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server", RestartCount: 1}}
	if err := s.lab.Client.Status().Update(s.Context(), worker); err != nil {
		s.Fatal(err)
	}
	s.eventually(func() error {
		if now := s.leader(); now == "" || now == before {
			return errors.New("the group has the leader that it had")
		}
		return nil
	})
}

// leader is the UID of the leader; empty while there is none.
func (s *story) leader() types.UID {
	s.Helper()
	members, err := s.members()
	if err != nil {
		s.Fatal(err)
	}
	return members["serve-0"].UID
}

// leaderReady: the workers are made when the leader is ready. It starts without them, and they start together, also when the
// group is made again.
func leaderReady(t *testing.T, lab *stage, job row) {
	job.change = func(spec map[string]any) {
		recreate(spec)
		spec["startupPolicy"] = "LeaderReady"
	}
	s := begin(t, lab, job)
	s.nodes("first", 1)
	s.eventually(func() error { return s.bound(4, 1) })
	s.nodes("second", 2)
	s.refused(4, 1, "Unschedulable", "needs 4, 3 would fit")
	s.why("needs 4, 3 would fit", "1 bound, 1 running, 3 waiting")
	s.restart()
	s.cyclesPass()
	if err := s.bound(4, 1); err != nil {
		t.Error(err)
	}
	s.nodes("third", 1)
	s.starts()
	s.says(job.running, "True")

	s.remakeGroup()
	s.starts()
	s.says(job.running, "True")
}
