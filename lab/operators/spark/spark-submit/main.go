// Spark-submit does what that of Apache Spark does in cluster mode, as far as pods are concerned: it creates the driver's pod,
// with its properties in a ConfigMap, and ends.
package main

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tutti-sched/tutti/lab/operators/spark"
)

func main() {
	if err := submit(context.Background(), spark.FromArguments(os.Args[1:])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func submit(ctx context.Context, properties spark.Properties) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	driver, err := properties.Driver(uuid.NewUUID())
	if err != nil {
		return err
	}
	driver, err = client.CoreV1().Pods(driver.Namespace).Create(ctx, driver, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("pod of the driver: %w", err)
	}
	if _, err := client.CoreV1().ConfigMaps(driver.Namespace).Create(ctx, properties.ConfigMap(driver), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("properties of the driver: %w", err)
	}
	return nil
}
