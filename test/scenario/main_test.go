package scenario

import (
	"flag"
	"log"
	"testing"

	"go.uber.org/goleak"
)

// TestMain plays 500 random clusters unless -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("500"); err != nil {
			log.Fatal(err)
		}
	}
	goleak.VerifyTestMain(m)
}
