package operators

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

const (
	sparkModule    = "github.com/kubeflow/spark-operator/v2"
	sparkNamespace = "spark-operator"
	sparkService   = "spark-operator-webhook-svc"
)

// Spark is spark-operator, with its webhooks, for SparkApplications whose batch scheduler is Volcano or a kube-scheduler of that
// name. In place of Apache Spark's spark-submit it runs one that creates the driver's pod alone.
func Spark(scheduler string) Operator {
	return Operator{
		Name: "spark-operator", Package: sparkModule + "/cmd/operator",
		CRDs: append(groups(scheduler), File{sparkModule, "config/crd/bases"}),
		Start: func(ctx context.Context, i *Installation) (*process.Process, error) {
			if err := startSparkWebhooks(ctx, i); err != nil {
				return nil, err
			}
			return startSpark(ctx, i, scheduler)
		},
	}
}

// startSpark starts the controller.
func startSpark(ctx context.Context, i *Installation, scheduler string) (*process.Process, error) {
	submit, err := binaries.Build(ctx, os.Stderr, binaries.SparkSubmit)
	if err != nil {
		return nil, err
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(i.Config().Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	variables := []string{
		"SPARK_HOME=" + filepath.Dir(filepath.Dir(submit)), // it runs bin/spark-submit below
		"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port(),
	}
	args := []string{"controller", "start", "--enable-batch-scheduler", "--namespaces=", "--health-probe-bind-address=" + health}
	if scheduler != Volcano {
		args = append(args, "--kube-scheduler-names="+scheduler)
	}
	p, err := i.runAs(i.operator.Name, variables, args...)
	if err != nil {
		return nil, err
	}
	return p, cluster.WaitReady(ctx, p, "http://"+health+"/readyz")
}

// startSparkWebhooks makes what the manifests have for the webhooks, which write the schedulerName of the pods, starts the
// program that serves them, and waits until the API server trusts the certificate that it has signed.
func startSparkWebhooks(ctx context.Context, i *Installation) error {
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	api, err := client.New(i.Config(), client.Options{})
	if err != nil {
		return fmt.Errorf("client for %s: %w", i.operator.Name, err)
	}
	service := onThisMachine(sparkService, port)
	service.Namespace = sparkNamespace
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sparkNamespace}}, service}
	configurations, err := sparkWebhooks(ctx, i, port)
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		objects = append(objects, configuration)
	}
	for _, object := range objects {
		if err := api.Create(ctx, object); err != nil {
			return fmt.Errorf("%s of %s: %w", object.GetName(), i.operator.Name, err)
		}
	}
	p, err := i.runAs("spark-operator-webhook", nil, "webhook", "start", "--namespaces=", fmt.Sprintf("--webhook-port=%d", port),
		"--webhook-cert-dir="+filepath.Join(i.temporary(), "certificates"), "--webhook-secret-namespace="+sparkNamespace,
		"--webhook-svc-name="+sparkService, "--webhook-svc-namespace="+sparkNamespace,
		"--mutating-webhook-name="+configurations[0].GetName(), "--validating-webhook-name="+configurations[1].GetName(),
		"--health-probe-bind-address="+health)
	if err != nil {
		return err
	}
	if err := cluster.WaitReady(ctx, p, "http://"+health+"/readyz"); err != nil {
		return err
	}
	for _, configuration := range configurations {
		if err := trusted(ctx, api, configuration); err != nil {
			return err
		}
	}
	return nil
}

// sparkWebhooks are the configurations of the webhooks: first the mutating one. The manifests limit them to the namespace
// default, as an installation would name its own namespaces.
func sparkWebhooks(ctx context.Context, i *Installation, port int) ([]*unstructured.Unstructured, error) {
	objects, err := i.manifests(ctx, File{sparkModule, "config/webhook"})
	if err != nil {
		return nil, err
	}
	var configurations []*unstructured.Unstructured
	for _, kind := range []string{mutating, validating} {
		for _, object := range objects {
			if object.GetKind() != kind {
				continue
			}
			if err := reachWebhooks(object, sparkNamespace, port); err != nil {
				return nil, fmt.Errorf("webhooks of %s: %w", i.operator.Name, err)
			}
			for _, webhook := range object.Object["webhooks"].([]any) {
				delete(webhook.(map[string]any), "namespaceSelector")
			}
			object.SetName(fmt.Sprintf("%s-%s", i.operator.Name, object.GetName()))
			configurations = append(configurations, object)
		}
	}
	if len(configurations) != 2 {
		return nil, fmt.Errorf("%d configurations of webhooks of %s, want 2", len(configurations), i.operator.Name)
	}
	return configurations, nil
}

// trusted waits until all webhooks of a configuration have the certificate of who signed theirs.
func trusted(ctx context.Context, reader client.Reader, configuration *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, cluster.Patience, true, func(ctx context.Context) (bool, error) {
		now := configuration.DeepCopy()
		if err := reader.Get(ctx, client.ObjectKeyFromObject(configuration), now); err != nil {
			return false, err
		}
		webhooks, _, err := unstructured.NestedSlice(now.Object, "webhooks")
		for _, webhook := range webhooks {
			bundle, _, err := unstructured.NestedString(webhook.(map[string]any), "clientConfig", "caBundle")
			if err != nil || bundle == "" {
				return false, err
			}
		}
		return true, err
	})
}
