// Command tail shows the engine's events, live.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/streamwright/streamwright/cmd/internal/console"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	app := &console.App{In: in, Out: out, Err: errs}
	root := console.TailCommand(app, console.Program("tail"))
	root.CompletionOptions.DisableDefaultCmd = true
	app.Flags(root)
	return app.Run(ctx, root, args)
}
