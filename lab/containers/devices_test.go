package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/harness"
)

// device is the resource of the devicePlugin.
const device = "lab.tutti.dev/device"

// devicePlugin offers four devices to a kubelet, and refuses the first container that it is asked for.
type devicePlugin struct {
	devices.UnimplementedDevicePluginServer
	refuse sync.Once
}

// GetDevicePluginOptions asks for no other calls.
func (*devicePlugin) GetDevicePluginOptions(context.Context, *devices.Empty) (*devices.DevicePluginOptions, error) {
	return &devices.DevicePluginOptions{}, nil
}

// ListAndWatch reports the devices, which stay as they are.
func (*devicePlugin) ListAndWatch(_ *devices.Empty, stream devices.DevicePlugin_ListAndWatchServer) error {
	all := &devices.ListAndWatchResponse{}
	for i := range 4 {
		all.Devices = append(all.Devices, &devices.Device{ID: fmt.Sprint("device-", i), Health: devices.Healthy})
	}
	if err := stream.Send(all); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate prepares devices for a container.
func (d *devicePlugin) Allocate(_ context.Context, asked *devices.AllocateRequest) (answer *devices.AllocateResponse, err error) {
	answer = &devices.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &devices.ContainerAllocateResponse{})
	}
	d.refuse.Do(func() { err = errors.New("the device does not answer") })
	return answer, err
}

// startPlugin registers the plugin at the kubelet of a node until the test ends.
func startPlugin(t *testing.T, env *harness.Env, name string) {
	t.Helper()
	// The path of a socket is short: the folder of a node may not be.
	short, err := os.MkdirTemp("", "plugin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	folder := filepath.Join(short, "d")
	if err := os.Symlink(machine(t, env, name).DevicePlugins(), folder); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "lab.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	devices.RegisterDevicePluginServer(server, &devicePlugin{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	kubelet, err := grpc.NewClient("unix:"+filepath.Join(folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer kubelet.Close()
	_, err = devices.NewRegistrationClient(kubelet).Register(t.Context(), &devices.RegisterRequest{
		Version: devices.Version, Endpoint: "lab.sock", ResourceName: device,
	})
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error {
		n := &corev1.Node{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		if free := n.Status.Allocatable[device]; free.Value() != 4 {
			return fmt.Errorf("%s has %s devices, want 4", name, free.String())
		}
		return nil
	})
}

// TestADevicePluginThatRefusesAMember: the kubelet lets the member fail with UnexpectedAdmissionError. Its Job makes another pod,
// which joins the members that run.
func TestADevicePluginThatRefusesAMember(t *testing.T) {
	env := lab(t)
	startPlugin(t, env, "real-1")
	ns := env.Namespace(t)
	member := pod(env, ns, "", `sleep infinity`, harness.InGroup("gang"))
	one := harness.Requests(map[string]string{device: "1"})
	one(member)
	member.Spec.Containers[0].Resources.Limits = member.Spec.Containers[0].Resources.Requests
	member.Spec.RestartPolicy = corev1.RestartPolicyNever
	env.Create(t, group(ns, "gang", 3), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gang"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](3), Completions: ptr.To[int32](3),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: member.Labels}, Spec: member.Spec},
		},
	})
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), ns)
		if err != nil {
			return err
		}
		running, refused := 0, 0
		for _, p := range pods {
			switch {
			case p.Status.Phase == corev1.PodRunning:
				running++
			case p.Status.Reason == "UnexpectedAdmissionError":
				refused++
			}
		}
		if running != 3 || refused != 1 {
			return fmt.Errorf("%d of 3 run, %d are refused, want 1", running, refused)
		}
		return nil
	})
}
