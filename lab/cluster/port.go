package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports that are handed out lie below those that the kernel hands out itself: what is free now stays free until it is used,
// however long the program takes to start. And no client that connects to a port without a listener gets connected to itself.
const (
	firstPort = 15_000
	lastPort  = 31_999
)

var nextPort = struct {
	sync.Mutex
	number int
}{number: firstPort + rand.IntN(lastPort-firstPort)}

// FreePort returns a port of the loopback interface that no process listens on, and that this process has not been given
// before. It may be called from any goroutine.
func FreePort() (int, error) {
	nextPort.Lock()
	defer nextPort.Unlock()
	for range lastPort - firstPort {
		port := nextPort.number
		if nextPort.number++; nextPort.number > lastPort {
			nextPort.number = firstPort
		}
		if l, err := net.Listen("tcp", Loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}

// FreeAddress is a free port with the address of the loopback interface.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return Loopback(port), err
}

// Loopback is a port of the loopback interface.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
