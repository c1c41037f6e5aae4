package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/rehearse"
)

// listOfCapture makes a list of what a capture has, as the scheduler would have served it.
func listOfCapture(ctx context.Context, name string, of document, accept string, include bool, into any) error {
	file, err := readCapture(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	moment, setting, err := openCapture(ctx, file)
	if err != nil {
		return err
	}
	source, err := rehearse.Inspect(ctx, moment, setting)
	if err != nil {
		return err
	}
	var list interface{ Table() *debugapi.Table }
	switch of.path {
	case debugapi.PathNodes:
		list, err = source.Nodes(ctx)
	case debugapi.PathQueues:
		list, err = source.Queues(ctx)
	case debugapi.PathDomains:
		list, err = source.Domains(ctx)
	default:
		return errors.New("--from: a capture has queues, nodes and domains")
	}
	if err != nil {
		return err
	}
	text, err := debugapi.Encode(list, accept, include)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
