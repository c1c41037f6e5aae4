// Package alerts has the chart's alerts as helm renders them, and plays metrics against them with promtool.
package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// ErrNoPromtool says that promtool is not installed: `make promtool` takes it from Debian's package prometheus.
var ErrNoPromtool = errors.New(`promtool is not here: "make promtool" takes it from Debian's package prometheus`)

// Promtool plays stories against the rules of the chart, in a folder of its own.
type Promtool struct {
	program, dir string
	// Rules are those of the chart, as a rule file of Prometheus.
	Rules string
}

// New renders the rules with helm into a folder, with more values of the chart, such as isolcpu.enabled=true. It returns
// ErrNoPromtool where there is none; out gets the progress of building helm.
func New(ctx context.Context, dir string, out io.Writer, values ...string) (*Promtool, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	p := &Promtool{dir: dir}
	if p.program, err = exec.LookPath("promtool"); err != nil {
		p.program = filepath.Join(root, "build", "bin", "promtool")
		if _, err := os.Stat(p.program); err != nil {
			return nil, ErrNoPromtool
		}
	}
	helm, err := binaries.Ensure(ctx, "", out, binaries.Helm)
	if err != nil {
		return nil, err
	}
	rendered, err := p.run(ctx, helm.Path(binaries.Helm), "template", "tutti", filepath.Join(root, "charts", "tutti"),
		"--namespace", "tutti-system", "--kube-version", binaries.DefaultKubernetes, "--show-only", "templates/alerts.yaml",
		"--set", strings.Join(append(values, "global.imageRegistry=registry.invalid", "metrics.alerts.enabled=true"), ","))
	if err != nil {
		return nil, err
	}
	var rule struct{ Spec any }
	if err := yaml.Unmarshal([]byte(rendered), &rule); err != nil {
		return nil, fmt.Errorf("the rules that helm renders: %w", err)
	}
	rules, err := yaml.Marshal(rule.Spec)
	if err != nil {
		return nil, err
	}
	p.Rules = string(rules)
	return p, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o644)
}

// run runs a program in the folder.
func (p *Promtool) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+p.dir, "HELM_CONFIG_HOME="+p.dir, "HELM_DATA_HOME="+p.dir)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

// Check returns an error unless the rules are well-formed.
func (p *Promtool) Check(ctx context.Context) error {
	_, err := p.run(ctx, p.program, "check", "rules", "rules.yaml")
	return err
}

// Play returns an error unless each story of a test file of promtool is as it says. The file refers to the rules as rules.yaml.
func (p *Promtool) Play(ctx context.Context, stories string) error {
	if err := os.WriteFile(filepath.Join(p.dir, "stories.yaml"), []byte(stories), 0o644); err != nil {
		return err
	}
	_, err := p.run(ctx, p.program, "test", "rules", "stories.yaml")
	return err
}

// Names are the alerts of the chart.
func (p *Promtool) Names() (names []string) {
	for _, found := range regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(p.Rules, -1) {
		names = append(names, found[1])
	}
	return names
}

// Recording is what Prometheus would have of a release, one sample of each series a minute.
type Recording struct {
	minutes int
	series  map[string][]string
}

// Record adds minutes in each of which a target shows the same metrics, in the text format of Prometheus. labels are those of the
// target, such as pod="a",job="b". A target that shows nothing is down.
func (r *Recording) Record(minutes int, labels, metrics string) {
	up := "1"
	if metrics == "" {
		up = "0"
	}
	r.add(minutes, "up{"+labels+"}", up)
	for line := range strings.Lines(metrics) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if end < 0 || line[0] == '#' {
			continue
		}
		name, own, _ := strings.Cut(line[:end], "{")
		all := strings.TrimSuffix(labels+","+strings.TrimSuffix(own, "}"), ",")
		r.add(minutes, name+"{"+all+"}", line[end+1:])
	}
	r.minutes += minutes
}

func (r *Recording) add(minutes int, series, value string) {
	if r.series == nil {
		r.series = map[string][]string{}
	}
	values := r.series[series]
	for len(values) < r.minutes {
		values = append(values, "_")
	}
	for range minutes {
		values = append(values, value)
	}
	r.series[series] = values
}

// Story returns the recording as a test file of promtool: the named alerts fire in its last minute, and no others. With none
// named, no alert fires in any minute.
func (r *Recording) Story(firing ...string) (string, error) {
	type input struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	type sample struct {
		Labels string `json:"labels"`
		Value  int    `json:"value"`
	}
	type expected struct {
		Expr    string   `json:"expr"`
		At      string   `json:"eval_time"`
		Samples []sample `json:"exp_samples,omitempty"`
	}
	var inputs []input
	for _, name := range slices.Sorted(maps.Keys(r.series)) {
		inputs = append(inputs, input{name, strings.Join(r.series[name], " ")})
	}
	var samples []sample
	first := 0
	for _, name := range firing {
		samples, first = append(samples, sample{fmt.Sprintf("{alertname=%q}", name), 1}), r.minutes-1
	}
	var expectations []expected
	for minute := first; minute < r.minutes; minute++ {
		expectations = append(expectations, expected{
			`count by (alertname) (ALERTS{alertstate="firing"})`, fmt.Sprintf("%dm", minute), samples,
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": inputs, "promql_expr_test": expectations}},
	})
	return string(text), err
}
