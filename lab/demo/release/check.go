package release

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/lab/cluster"
)

// HoldCheck are the arguments of helm with which the pod that checks the configuration runs until PlayCheck ends it: kwok would
// have it succeed after a second.
func HoldCheck() []string {
	return []string{"--set-string", `configCheck.podAnnotations.` + strings.ReplaceAll(cluster.RunFor, ".", `\.`) + `=1h`}
}

// PlayCheck plays the pods of the Job that checks the configuration, until stop is called: it runs the program with their
// arguments, and ends each as its process ended. said returns what the processes printed so far.
func PlayCheck(ctx context.Context, c *cluster.Cluster, program string) (said func() string, stop func(), err error) {
	client, err := c.Client()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var (
		mu      sync.Mutex
		printed strings.Builder
		ended   = make(chan struct{})
	)
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&printed, format+"\n", args...)
	}
	play := func(pod *corev1.Pod) {
		state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
		pod.Status.Phase = corev1.PodSucceeded
		out, err := exec.CommandContext(ctx, program, pod.Spec.Containers[0].Args...).CombinedOutput()
		if say("%s", out); err != nil {
			pod.Status.Phase, state.Terminated.ExitCode, state.Terminated.Reason = corev1.PodFailed, 1, "Error"
		}
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].State, pod.Status.ContainerStatuses[i].Ready = state, false
		}
		if _, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			say("end of pod %s: %v", pod.Name, err)
		}
	}
	go func() {
		defer close(ended)
		for ticker := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			pods, err := client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=tutti-check-config"})
			if err != nil {
				continue // the next look says more
			}
			for i := range pods.Items {
				if pods.Items[i].Status.Phase == corev1.PodRunning {
					play(&pods.Items[i])
				}
			}
		}
	}()
	said = func() string {
		mu.Lock()
		defer mu.Unlock()
		return printed.String()
	}
	return said, func() { cancel(); <-ended }, nil
}
