// Package command is the scheduler as a command: its flags, and how its parts are joined. cmd/tutti-scheduler runs it with the
// built-in plugins; another module may build a scheduler with plugins of its own, see docs/writing-a-plugin.md.
//
// It contains no policy and no logic of scheduling.
package command
