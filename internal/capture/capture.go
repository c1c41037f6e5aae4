// Package capture writes a moment of the loop to a file, and reads it again: what the state of the cluster holds, what the loop
// knows, and the configuration. With it the next cycle is run elsewhere, with the same decisions.
//
// The file is gzip of JSON lines: a header, what the loop knows, the records of package cluster, and an end with the number of
// the lines, a hash of them, and a digest of the snapshot. Nothing in it is in the order of a map: one moment has one text.
package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Format is the number of the format that Write writes and Read reads. Another one is refused.
const Format = 1

var (
	// ErrFormat is why a file is refused that is none, or of another format.
	ErrFormat = errors.New("not a capture that this version reads")
	// ErrCut is why a file is refused whose end is missing.
	ErrCut = errors.New("the capture is cut")
	// ErrChanged is why a file is refused whose lines are not those that were written.
	ErrChanged = errors.New("the capture was changed")
	// ErrDiffers is why contents are refused of which this version makes another snapshot than the one that wrote them.
	ErrDiffers = errors.New("the snapshot is another one than that of the capture")
)

// Header is the first line of a capture. Who writes one sets what Write does not.
type Header struct {
	// Format, At and Cycle are set by Write: the time of the moment, and the number of the last cycle before it.
	Format int       `json:"format"`
	At     time.Time `json:"at"`
	Cycle  uint64    `json:"cycle"`
	// Version is that of the program, Kubernetes that of the API server, and Gates are the feature gates that differ from its
	// defaults.
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	Gates      string `json:"gates,omitempty"`
	// Configuration is the text in force. Paused says why the scheduler is paused beside that; empty when it is not.
	Configuration string `json:"configuration"`
	Paused        string `json:"paused,omitempty"`
	// Redacted reports that names are replaced.
	Redacted bool `json:"redacted,omitempty"`
	// Inexact says what a replay does not show exactly. Write adds what is so of the moment.
	Inexact []string `json:"inexact"`
}

// knowledge is what the loop knows beside the contents.
type knowledge struct {
	Leading bool             `json:"leading"`
	Delays  *backoff.Delays  `json:"delays"`
	Gangs   *lifecycle.Gangs `json:"gangs"`
}

// end is the last line. Lines counts those before it, and SHA256 is of their text; Snapshot is the digest of the snapshot.
type end struct {
	Lines    int    `json:"lines"`
	SHA256   string `json:"sha256"`
	Snapshot string `json:"snapshot"`
}

// line is one line of a capture. Exactly one field is set, of the record also.
type line struct {
	Header    *Header    `json:"capture,omitempty"`
	Knowledge *knowledge `json:"loop,omitempty"`
	cluster.Record
	End *end `json:"end,omitempty"`
}

// Write writes a moment. The translators are those of the profile in force. It reads the moment alone, on any goroutine; an error
// is one of the writer.
func Write(to io.Writer, header Header, moment *scheduler.Moment, translators []model.RequestTranslator) error {
	file := &File{
		Header: header, records: moment.Contents.Records(), known: &knowledge{Leading: moment.Leading, Delays: moment.Delays, Gangs: moment.Gangs},
		snapshot: cluster.Restore(moment.Contents, translators).Snapshot(moment.Contents.At).Digest(),
	}
	file.Format, file.At, file.Cycle = Format, moment.Contents.At.UTC(), moment.Cycle
	file.Inexact = append(slices.Clone(header.Inexact), inexact(file.records)...)
	return file.Write(to)
}

// Write writes the capture. An error is one of the writer.
func (f *File) Write(to io.Writer) error {
	zip := gzip.NewWriter(to)
	buffer, sum := bufio.NewWriter(zip), sha256.New()
	encoder := json.NewEncoder(io.MultiWriter(buffer, sum))
	lines := []line{{Header: &f.Header}, {Knowledge: f.known}}
	for _, record := range f.records {
		lines = append(lines, line{Record: record})
	}
	for _, one := range lines {
		if err := encoder.Encode(one); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
	}
	if err := json.NewEncoder(buffer).Encode(line{End: &end{len(lines), text(sum), f.snapshot}}); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if err := errors.Join(buffer.Flush(), zip.Close()); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

func text(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// inexact names the pods that wait for what is no part of a capture: volumes, and the devices of claims.
func inexact(records []cluster.Record) (names []string) {
	volumes, claims := 0, 0
	for _, record := range records {
		if record.Pod == nil || record.Pod.Object.Spec.NodeName != "" || record.Pod.Object.Status.Phase != corev1.PodPending {
			continue
		}
		spec := &record.Pod.Object.Spec
		if slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }) {
			volumes++
		}
		if len(spec.ResourceClaims) > 0 {
			claims++
		}
	}
	if volumes > 0 {
		names = append(names, fmt.Sprintf("volumes: %d pods that wait have volume claims, and find none", volumes))
	}
	if claims > 0 {
		names = append(names, fmt.Sprintf("claims: %d pods that wait have resource claims, whose devices are not tried", claims))
	}
	return names
}

// File is a capture that was read. It never changes.
type File struct {
	Header
	known    *knowledge
	records  []cluster.Record
	snapshot string
}

// Read reads a capture as a whole. An error wraps ErrFormat, ErrCut or ErrChanged, or is one of the reader.
func Read(from io.Reader) (*File, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not compressed: %w", ErrFormat, err)
	}
	f, buffer, sum := &File{}, bufio.NewReader(zip), sha256.New()
	for n := 0; ; n++ {
		data, err := buffer.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w after line %d", ErrCut, n)
		case errors.Is(err, gzip.ErrChecksum):
			return nil, fmt.Errorf("%w: its checksum is another one", ErrChanged)
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if n == 0 { // what other formats have in the other lines is not known
			var first struct{ Capture struct{ Format int } }
			if err := json.Unmarshal(data, &first); err != nil || first.Capture.Format != Format {
				return nil, fmt.Errorf("%w: its format is %d, and this version reads format %d", ErrFormat, first.Capture.Format, Format)
			}
		}
		var one line
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, n+1, err)
		}
		switch {
		case one.End != nil:
			if one.End.Lines != n || one.End.SHA256 != text(sum) {
				return nil, fmt.Errorf("%w: its end is of %d lines with another text", ErrChanged, one.End.Lines)
			}
			if f.snapshot = one.End.Snapshot; f.known == nil {
				return nil, fmt.Errorf("%w: it has nothing that the loop knows", ErrFormat)
			}
			if _, err := buffer.ReadByte(); !errors.Is(err, io.EOF) { // gzip has its checksum there
				return nil, fmt.Errorf("%w: something follows its end", ErrChanged)
			}
			return f, nil
		case one.Header != nil:
			f.Header = *one.Header
		case one.Knowledge != nil:
			f.known = one.Knowledge
		default:
			f.records = append(f.records, one.Record)
		}
		sum.Write(data)
	}
}

// Moment makes the moment again. The translators are those of the profile by the configuration of the file. An error wraps
// ErrDiffers where this version reads the objects otherwise than the one that has written them.
func (f *File) Moment(translators []model.RequestTranslator) (*scheduler.Moment, error) {
	contents, err := cluster.Load(f.records, translators)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	if digest := cluster.Restore(contents, translators).Snapshot(contents.At).Digest(); digest != f.snapshot {
		return nil, fmt.Errorf("%w: it was written by version %s", ErrDiffers, f.Version)
	}
	delays := f.known.Delays.Clone()
	return &scheduler.Moment{
		Contents: contents, Delays: delays, Gangs: f.known.Gangs.Clone(delays), Cycle: f.Cycle, Leading: f.known.Leading,
	}, nil
}

// UnmarshalJSON reads what the loop knows; the delays have the policies of this version.
func (k *knowledge) UnmarshalJSON(data []byte) error {
	type plain knowledge
	k.Delays, k.Gangs = backoff.NewDelays(), &lifecycle.Gangs{}
	return json.Unmarshal(data, (*plain)(k))
}
