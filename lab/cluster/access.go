package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config is an administrator's access to the cluster, with no limit on requests per second. It is the caller's own.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the file with an administrator's access.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig", "admin") }

// Client is a typed client with the access of Config.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return client, nil
}

// KubeconfigFor writes a kubeconfig file with a fresh token of a ServiceAccount, which must exist, and returns its
// path. A client that uses it may do what RBAC allows that account, and no more.
func (c *Cluster) KubeconfigFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	return c.access(ctx, namespace, serviceAccount, serviceAccount, nil)
}

// KubeconfigForPod is KubeconfigFor with the token that a pod has, which tells the API server the pod and its node. The pod
// must be on a node, and the token is good for as long as it is there.
func (c *Cluster) KubeconfigForPod(ctx context.Context, pod *corev1.Pod) (string, error) {
	bound := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	return c.access(ctx, pod.Namespace, pod.Spec.ServiceAccountName, pod.Name, bound)
}

// access writes a kubeconfig file under a name.
func (c *Cluster) access(
	ctx context.Context, namespace, serviceAccount, name string, bound *authenticationv1.BoundObjectReference,
) (string, error) {
	client, err := c.Client()
	if err != nil {
		return "", err
	}
	lifetime := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime, BoundObjectRef: bound},
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", namespace, serviceAccount, err)
	}
	path := filepath.Join(c.dir, "kubeconfig", namespace+"-"+name)
	return path, c.writeAccess(path, serviceAccount, namespace, token.Status.Token)
}

// host is the address of the API server.
func (c *Cluster) host() string { return fmt.Sprintf("https://%s:%d", c.address(), c.ports.apiServer) }

// address is where the API server listens: where pods of real nodes reach it, if there are any.
func (c *Cluster) address() string {
	if c.network != nil {
		return c.network.Address()
	}
	return "127.0.0.1"
}

// key is a file in the folder of keys.
func (c *Cluster) key(name string) string { return filepath.Join(c.dir, "keys", name) }

// writeCredentials makes the administrator's token and the key pair that signs ServiceAccount tokens.
func (c *Cluster) writeCredentials() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	token := hex.EncodeToString(secret)
	c.config = &rest.Config{Host: c.host(), BearerToken: token, QPS: -1, DisableCompression: true}

	privatePEM := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}
	publicPEM := &pem.Block{Type: "PUBLIC KEY", Bytes: public}
	for name, text := range map[string][]byte{
		"service-account.key": pem.EncodeToMemory(privatePEM),
		"service-account.pub": pem.EncodeToMemory(publicPEM),
		"tokens.csv":          []byte(token + ",admin,admin,\"system:masters\"\n"),
	} {
		if err := os.WriteFile(c.key(name), text, 0o600); err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
	}
	return nil
}

// writeKubeconfig writes the administrator's file. The server made its certificate, and the authority that signed it,
// when it started.
func (c *Cluster) writeKubeconfig() error {
	authority, err := os.ReadFile(c.key("apiserver.crt"))
	if err != nil {
		return fmt.Errorf("certificate of the server: %w", err)
	}
	c.config.CAData = authority
	return c.writeAccess(c.Kubeconfig(), "admin", "default", c.config.BearerToken)
}

// writeAccess writes one kubeconfig file.
func (c *Cluster) writeAccess(path, user, namespace, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: c.host(), CertificateAuthorityData: c.config.CAData}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user, Namespace: namespace}
	config.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return nil
}

// waitForNamespace waits for a namespace that the server makes a moment after it is ready.
func (c *Cluster) waitForNamespace(ctx context.Context, name string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}
