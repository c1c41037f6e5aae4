package commit

import (
	"context"
	"errors"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Fenced returns a copy of the configuration whose connections send nothing while mayWrite is false: they are closed instead.
// It is called immediately before each write to the network, on any goroutine.
//
// The Driver checks before each request, too, but after that a request waits for goroutines and locks, and a process that is
// suspended and resumes after its Lease has ended would send what waits there. Here nothing is between the check and the
// system call.
func Fenced(config *rest.Config, mayWrite func() bool) *rest.Config {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &fencedConnection{Conn: connection, mayWrite: mayWrite}, nil
	}
	return config
}

// errFenced is why a connection was closed. It is not ErrNotLeading: some requests on the connection may have been sent.
var errFenced = errors.New("connection closed, since the Lease does not hold any more")

// fencedConnection is a connection that is closed rather than written to when mayWrite is false.
type fencedConnection struct {
	net.Conn
	mayWrite func() bool
}

// Write sends, or closes the connection.
func (c *fencedConnection) Write(bytes []byte) (int, error) {
	if !c.mayWrite() {
		c.Conn.Close()
		return 0, errFenced
	}
	return c.Conn.Write(bytes)
}
