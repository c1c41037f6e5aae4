package convert

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"
)

// TestQueues plays testdata: "queues" converts its input.
func TestQueues(t *testing.T) {
	datadriven.RunTest(t, "testdata/queues.txt", func(t *testing.T, d *datadriven.TestData) string {
		queues, err := Queues(strings.NewReader(d.Input))
		if err != nil {
			if queues != nil {
				t.Errorf("queues besides an error: %v", queues)
			}
			return "error: " + err.Error() + "\n"
		}
		var out strings.Builder
		for _, queue := range queues {
			for _, remark := range queue.Remarks {
				out.WriteString("# " + remark + "\n")
			}
			text, err := yaml.Marshal(queue)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		return out.String()
	})
}
