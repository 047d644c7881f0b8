package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/mcpserver"
	"github.com/streamwright/streamwright/wire"
)

// mcpStop bounds how long requests under way may take at the end.
const mcpStop = 5 * time.Second

func mcpCommand(a *app) *cobra.Command {
	var allow []string
	var listen, tokenFile string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let a language model see the engine (Model Context Protocol)",
		Long: `Serve the Model Context Protocol: tools with which a language model sees the
engine (status, lists, items, histories, why an item is not running, causes of
death), on standard input and output, or over HTTP. They only read, unless
--allow says more. What deletes, cancels or acts on many items then takes two
calls: the first says what would be done, and gives a token for the second.

Like every other command it needs a NATS user who may do what the tools do.`,
		Example: `  engine mcp
  engine mcp --allow submit,operate
  engine mcp --http 127.0.0.1:8585`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := mcpserver.Options{Version: embedded.Version}
			for _, name := range allow {
				role, err := wire.ParseRole(name)
				if err != nil || role != wire.RoleSubmit && role != wire.RoleOperate {
					return events.Refuse(events.CodeBadRequest, "--allow is %q: use submit, operate, or both with a comma between them", name)
				}
				o.Allow |= wire.Roles(role)
			}
			token, err := mcpToken(listen, tokenFile)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(c *streamwright.Client) error {
				o.Client = c
				s := mcpserver.New(o)
				if listen != "" {
					return a.mcpHTTP(cmd.Context(), listen, mcpserver.HTTP(s, token, nil))
				}
				err := s.Run(cmd.Context(), &mcp.StdioTransport{})
				if cmd.Context().Err() != nil {
					return nil // asked to stop
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&allow, "allow", nil, "also offer the tools of these `roles`: submit, operate")
	f.StringVar(&listen, "http", "", "serve HTTP on this `address` (host:port) instead")
	f.StringVar(&tokenFile, "token-file", "", "with --http: a `file` with the token that requests must bear; needed unless the address is of this machine alone")
	return cmd
}

// mcpToken reads the token of HTTP, if there is one.
func mcpToken(listen, file string) (string, error) {
	if file == "" {
		host, _, err := net.SplitHostPort(listen)
		if ip := net.ParseIP(host); listen == "" || err == nil && (host == "localhost" || ip != nil && ip.IsLoopback()) {
			return "", nil
		}
		if err != nil {
			return "", events.Refuse(events.CodeBadRequest, "--http is %q: write it as host:port, such as 127.0.0.1:8585", listen)
		}
		return "", events.Refuse(events.CodeBadRequest, "--http %s can be reached from other machines: set --token-file, or listen on 127.0.0.1", listen)
	}
	if listen == "" {
		return "", events.Refuse(events.CodeBadRequest, "--token-file is for --http: standard input and output need none")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", events.WithCode(events.CodeBadConfig, err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 16 {
		return "", events.Refuse(events.CodeBadConfig, "the token in %s has %d characters: it must have 16 or more", file, len(token))
	}
	return token, nil
}

// mcpHTTP serves until ctx ends.
func (a *app) mcpHTTP(ctx context.Context, listen string, h http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serve MCP: %w", err)
	}
	a.Notef("MCP on http://%s/", l.Addr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mcpStop)
		defer cancel()
		if s.Shutdown(ctx) != nil { // streams stay open until their sessions end
			_ = s.Close()
		}
	})
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve MCP: %w", err)
	}
	<-stopped
	return nil
}
