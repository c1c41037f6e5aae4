package containers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1alpha1 "github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
)

// pod is a pod whose one container runs a script of a shell.
func pod(env *harness.Env, namespace, name, script string, options ...harness.PodOption) *corev1.Pod {
	runs := func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = node.Busybox
		p.Spec.Containers[0].Command = []string{"sh", "-c", script}
	}
	return env.Pod(namespace, name, append([]harness.PodOption{runs}, options...)...)
}

// onNode lets a pod be placed on one node alone.
func onNode(name string) harness.PodOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }
}

// grace is how long the containers of the pod may take to end, in seconds.
func grace(seconds int64) harness.PodOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// priority gives the pod a priority class.
func priority(class string) harness.PodOption {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// group is a PodGroup.
func group(namespace, name string, members int32) *schedulingv1alpha1.PodGroup {
	return &schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       schedulingv1alpha1.PodGroupSpec{MinMember: members},
	}
}

// get reads a pod.
func get(ctx context.Context, env *harness.Env, namespace, name string) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
	return p, err
}

// eventuallyPod waits until a pod is as wanted, and returns it. The error of want says what is not so yet.
func eventuallyPod(t *testing.T, env *harness.Env, namespace, name string, want func(p *corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	env.Eventually(t, func() error {
		p, err := get(t.Context(), env, namespace, name)
		if err != nil {
			return err
		}
		last = p
		return want(p)
	})
	return last
}

// in is a want of eventuallyPod: a phase.
func in(phase corev1.PodPhase) func(p *corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("pod %s is %s, want %s: %+v", p.Name, p.Status.Phase, phase, p.Status.ContainerStatuses)
		}
		return nil
	}
}

// logs are what a container of a pod has printed; an empty name is that of the only one.
func logs(t *testing.T, env *harness.Env, namespace, name, container string) string {
	t.Helper()
	text, err := printed(t.Context(), env, namespace, name, container)
	if err != nil {
		t.Fatalf("logs of %s: %v", name, err)
	}
	return text
}

// printed is logs with the error of the request.
func printed(ctx context.Context, env *harness.Env, namespace, name, container string) (string, error) {
	text, err := env.Clientset.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
	return strings.TrimSpace(string(text)), err
}
