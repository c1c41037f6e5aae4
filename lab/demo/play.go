package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// patience is how long the demo waits for something that takes a second.
const patience = 45 * time.Second

// The gangs of the demo: the names of their manifests, but for the Job's, and of their PodGroups.
const (
	mpi     = "mpi"
	near    = "near"
	tooMany = "too-many"
	pytorch = "pytorch"
	tooBig  = "too-big"
	sweep   = "sweep"
	urgent  = "urgent"
	quick   = "short"
	endless = "endless"
	quiet   = "quiet"
	tooWide = "too-wide"
)

// The reasons that the demo waits to see; they are part of the API.
const (
	notEnoughMembers      = "NotEnoughMembers"
	insufficientResources = "InsufficientResources"
	noDomainFits          = "NoDomainFits"
	reserved              = "Reserved"
)

// play submits the jobs and watches. That something does not happen in time is left to the verdict; an error means
// that the play cannot go on.
func (s *demo) play(ctx context.Context) error {
	for _, act := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"1. An MPI job: a launcher and eight workers. First the workers alone.", s.playMPI},
		{"2. A gang of eight pods of four GPUs each, all in one rack. Then one of ten, and no rack has capacity for that.", s.playNear},
		{"3. A PyTorch job: a master and three workers, eight GPUs each: half of all GPUs.", s.playPyTorch},
		{"4. A gang of twelve times eight GPUs, in a cluster that has eight times eight.", s.playTooBig},
		{"5. A batch/v1 Job of six times eight GPUs. It has to wait until the PyTorch job is done.", s.playJob},
		{"6. An urgent job of four times eight GPUs, and two such nodes are idle. One gang has to go, as a whole.", s.playUrgent},
		{"7. The Job created its pods again, and waits. Capacity is reserved for it; only jobs that end in time may use it.", s.playReserved},
		{"8. Two pods of three isolated CPUs each, which no other pod may use; then a pod of two on one NUMA node.", s.playIsolated},
	} {
		s.screen.title(act.title)
		if err := act.play(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *demo) playMPI(ctx context.Context) error {
	all, err := objects("mpi")
	if err != nil {
		return err
	}
	var early, late []*unstructured.Unstructured
	for _, object := range all {
		if object.GetName() == "mpi-launcher" {
			late = append(late, object)
			continue
		}
		early = append(early, object)
	}
	if err := s.submit(ctx, mpi, early); err != nil {
		return err
	}
	g := s.board.gang(mpi)
	err = s.watch(ctx, patience, func() bool { return len(g.pods) == 8 && g.waitsFor(notEnoughMembers) })
	if err != nil {
		return err
	}
	if err := s.submit(ctx, mpi, late); err != nil {
		return err
	}
	return s.watch(ctx, patience, func() bool { return s.running(mpi) })
}

func (s *demo) playNear(ctx context.Context) error {
	if err := s.submitFile(ctx, near, "near"); err != nil {
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.running(near) }); err != nil {
		return err
	}
	if err := s.submitFile(ctx, tooMany, "too-many"); err != nil {
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.board.gang(tooMany).waitsFor(noDomainFits) }); err != nil {
		return err
	}
	return s.finish(ctx, near)
}

func (s *demo) playPyTorch(ctx context.Context) error {
	if err := s.submitFile(ctx, pytorch, "pytorch"); err != nil {
		return err
	}
	return s.watch(ctx, patience, func() bool { return s.running(pytorch) })
}

func (s *demo) playTooBig(ctx context.Context) error {
	if err := s.submitFile(ctx, tooBig, "too-big"); err != nil {
		return err
	}
	return s.watch(ctx, patience, func() bool { return s.board.gang(tooBig).waitsFor(insufficientResources) })
}

func (s *demo) playJob(ctx context.Context) error {
	if err := s.submitFile(ctx, sweep, "job"); err != nil {
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.running(sweep) }); err != nil {
		return err
	}
	// What was bound late, or wrongly, shows within a moment.
	return s.watch(ctx, 2*time.Second, func() bool { return false })
}

func (s *demo) playUrgent(ctx context.Context) error {
	if err := s.submitFile(ctx, urgent, "urgent"); err != nil {
		return err
	}
	return s.watch(ctx, patience, func() bool { return s.running(urgent) })
}

func (s *demo) playReserved(ctx context.Context) error {
	waits := func() bool { return s.board.gang(sweep).status.Reservation != nil }
	if err := s.watch(ctx, patience, waits); err != nil {
		return err
	}
	if err := s.submitFile(ctx, endless, "endless"); err != nil {
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.board.gang(endless).waitsFor(reserved) }); err != nil {
		return err
	}
	if err := s.submitFile(ctx, quick, "short"); err != nil {
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.board.gang(quick).isWhole() }); err != nil {
		return err
	}
	if err := s.finish(ctx, urgent); err != nil { // sooner than it said: it had time to spare for slow machines
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.running(sweep) && s.running(endless) }); err != nil {
		return err
	}
	return s.watch(ctx, 2*time.Second, func() bool { return false })
}

// running reports whether a gang is bound as a whole and its status says that it runs.
func (s *demo) running(name string) bool {
	g := s.board.gang(name)
	return g.isWhole() && (g.status.Phase == "Running" || g.status.Phase == "Succeeded")
}

func (s *demo) submitFile(ctx context.Context, who, file string) error {
	all, err := objects(file)
	if err != nil {
		return err
	}
	return s.submit(ctx, who, all)
}

func (s *demo) submit(ctx context.Context, who string, all []*unstructured.Unstructured) error {
	for _, object := range all {
		text := object.GetKind() + " " + object.GetName()
		if min, found, _ := unstructured.NestedInt64(object.Object, "spec", "minMember"); found {
			text += fmt.Sprintf(": at least %d together", min)
		}
		if pods, found, _ := unstructured.NestedInt64(object.Object, "spec", "parallelism"); found {
			text += fmt.Sprintf(": %d pods", pods)
		}
		s.screen.say(who, "submit    %s", text)
	}
	return submit(ctx, s.client, all...)
}

// finish lets the pods of a gang end now, on nodes that run no containers.
func (s *demo) finish(ctx context.Context, gang string) error {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelPodGroup: gang}); err != nil {
		return fmt.Errorf("pods of %s: %w", gang, err)
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, cluster.RunFor))
	for i := range pods.Items {
		if err := client.IgnoreNotFound(s.client.Patch(ctx, &pods.Items[i], patch)); err != nil {
			return fmt.Errorf("end of pod %s: %w", pods.Items[i].Name, err)
		}
	}
	return nil
}

// watch shows what happens until a condition holds or the time is over.
func (s *demo) watch(ctx context.Context, timeout time.Duration, until func() bool) error {
	over := time.NewTimer(timeout)
	defer over.Stop()
	for !until() {
		select {
		case c := <-s.changes:
			s.board.see(c)
		case <-s.scheduler.Done():
			return fmt.Errorf("the scheduler ended: %w", s.scheduler.Failure())
		case <-over.C:
			return nil
		case <-ctx.Done():
			return errInterrupted
		}
	}
	return nil
}
