// Command metricsdoc writes docs/metrics.md to its standard output, from the table in internal/metrics; hack/generate.sh
// calls it. It is no part of what is installed, and measures nothing.
package main

import (
	"fmt"
	"os"
)

func main() {
	if _, err := fmt.Print(markdown()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
