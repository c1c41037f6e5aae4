package thrift_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/examples/thrift"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// run plays one cycle with the plugin as the configuration has it, on a node with a GPU and one without, where so many pods
// without GPU wait. It returns where they go, and why the others wait.
func run(t *testing.T, arguments string, pods int) string {
	t.Helper()
	catalogue := framework.Registry{
		Actions: []framework.ActionRegistration{{Name: "allocate", New: func(*config.Reader) (framework.Action, error) { return allocate.New(), nil }}},
		Plugins: []framework.PluginRegistration{thrift.Maker()},
	}
	text := "actions: allocate\ntiers:\n- plugins:\n  - name: thrift\n    arguments: " + arguments + "\n"
	configuration, _, err := config.Decode("scheduler.yaml", []byte(text), catalogue.Names())
	if err != nil {
		return err.Error()
	}
	profile, err := catalogue.Build(configuration)
	if err != nil {
		return err.Error()
	}
	state := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}})
	state.Apply(cluster.Event{Kind: cluster.KindNode, Node: node("dear", "2", "8")})
	state.Apply(cluster.Event{Kind: cluster.KindNode, Node: node("plain", "2", "0")})
	for i := range pods {
		state.Apply(cluster.Event{Kind: cluster.KindPod, Pod: pod(fmt.Sprintf("p%d", i))})
	}
	var said []string
	refusals := framework.Run(state.Snapshot(time.Unix(0, 0)), profile, framework.Options{
		Verify: true,
		Decide: func(decision model.Decision) {
			said = append(said, decision.Binds[0].Pod.Name+" "+decision.Binds[0].Node)
			state.Assume(decision)
		},
	})
	for i := range pods {
		key := model.JobKey{Namespace: "default", Name: fmt.Sprintf("p%d", i), IsPod: true}
		if refusal := refusals[key]; refusal != nil {
			said = append(said, key.Name+" waits: "+refusal.String())
		}
	}
	return strings.Join(said, "; ")
}

func node(name, cpu, gpus string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse(cpu), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse(gpus),
		}},
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{SchedulerName: "tutti", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}}},
	}
}

func TestPlugin(t *testing.T) {
	for name, c := range map[string]struct{ arguments, want string }{
		"prefers":      {"{weight: 10}", "p0 plain; p1 plain; p2 dear"},
		"strict":       {"{strict: true}", "p0 plain; p1 plain; p2 waits: members beyond the minimum that wait: 1; 1 node lacks cpu, 1 node: kept for pods that ask for nvidia.com/gpu; closest: node plain, missing 1 cpu"},
		"another kind": {"{resource: example.com/fpga, strict: true}", "p0 dear; p1 dear; p2 plain"},
		"too heavy":    {"{weight: 1000}", `scheduler.yaml:5: plugin thrift: argument weight must be between 1 and 100, not "1000"`},
		"misspelt":     {"{strickt: true}", `scheduler.yaml:5: plugin thrift: unknown argument "strickt"; did you mean "strict"?`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(t, c.arguments, 3); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}
