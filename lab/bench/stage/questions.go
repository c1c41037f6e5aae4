package stage

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/harness"
)

// question is the one of `kubectl tutti when --for 1h`.
const question = `{"for":"1h"}`

// Questions asks Tutti questions, until the context ends.
type Questions struct {
	// Answered and Refused count them; refused are those that were too many (429).
	Answered, Refused int
	client            http.Client
	address, token    string
}

// NewQuestions makes an account that may ask, and waits until the scheduler listens.
func (s *Bench) NewQuestions(ctx context.Context, scheduler *harness.Scheduler) (*Questions, error) {
	if _, err := scheduler.Get(ctx, "/metrics"); err != nil {
		return nil, err
	}
	client, err := s.Cluster.Client()
	if err != nil {
		return nil, err
	}
	about := metav1.ObjectMeta{Namespace: Namespace, Name: "asks"}
	if _, err := client.CoreV1().ServiceAccounts(Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: about}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("account that asks: %w", err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: about.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: about.Name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("rights of the account that asks: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{debugapi.Audience}}}
	made, err := client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, about.Name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of the account that asks: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the scheduler made its certificate itself
	return &Questions{client: http.Client{Transport: transport}, address: scheduler.URL + "/debug/ask", token: made.Status.Token}, nil
}

// Ask asks so many questions a minute, one after another, until the context ends. It is called on a goroutine of its own.
func (q *Questions) Ask(ctx context.Context, perMinute int) error {
	defer q.client.CloseIdleConnections()
	next := time.NewTicker(time.Minute / time.Duration(perMinute))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		status, err := q.one(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case status == http.StatusOK:
			q.Answered++
		case status == http.StatusTooManyRequests:
			q.Refused++
		default:
			return fmt.Errorf("a question was answered with status %d", status)
		}
	}
}

func (q *Questions) one(ctx context.Context) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, q.address, bytes.NewReader([]byte(question)))
	if err != nil {
		return 0, fmt.Errorf("question: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+q.token)
	answer, err := q.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("question: %w", err)
	}
	return answer.StatusCode, answer.Body.Close()
}
