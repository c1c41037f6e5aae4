package commit

import (
	"context"
	"errors"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Fenced returns a copy of the configuration whose connections send nothing while mayWrite says no: they are closed instead. It is
// asked right before each write to the network, on any goroutine.
//
// The Driver asks before each request, too, but between that and the network a request waits for goroutines and for locks, and a
// process that is frozen and thaws after its Lease has ended would send what waits there. Here nothing is between the question and
// the system call.
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

// errFenced is why a connection was closed. It is not ErrNotLeading: of the requests that end with the connection some had been sent.
var errFenced = errors.New("connection closed, since the Lease does not hold any more")

// fencedConnection is a connection that is given up rather than written to when mayWrite says no.
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
