package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
)

func signalCommand(a *app) *cobra.Command {
	var msgID string
	cmd := &cobra.Command{
		Use:   "signal ID NAME [JSON | - | @file]",
		Short: "Send an item a signal",
		Long: `Send an item a signal, with or without a payload. An item that waits for a
signal of that name runs again; otherwise the signal is kept until the item
waits for it. To see what an item waits for, use engine show or engine why.

With --msg-id the command can be repeated: signals with the same id count once.`,
		Example: "  engine signal 01JD3V6YB2M4C9W8ZK5T7QXRNE approved '{\"by\":\"ada\"}'",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			sig := streamwright.Signal{Name: args[1], MsgID: msgID}
			if len(args) > 2 {
				doc, err := a.json("payload is", args[2])
				if err != nil {
					return err
				}
				sig.Payload = doc
			}
			return a.ask(cmd.Context(), func(ctx context.Context, c *streamwright.Client) error {
				sent, err := c.Signal(ctx, args[0], sig)
				return a.show(sent, err, func() {
					note := ""
					if sent.Repeat {
						note = " (it had come before)"
					}
					a.Printf("%s  %s%s\n", sent.ID, sent.State, note)
				})
			})
		},
	}
	cmd.Flags().StringVar(&msgID, "msg-id", "", "an `id` of your own, so that repeating the command sends no second signal")
	return cmd
}
