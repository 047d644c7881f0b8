package main

import (
	"context"
	"io"
)

func ask(context.Context, options, io.Writer) error  { return nil }
func look(context.Context, options, io.Writer) error { return nil }
