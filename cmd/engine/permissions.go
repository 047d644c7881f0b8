package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/wire"
)

// printedPermissions is the output for --json.
type printedPermissions struct {
	User           string   `json:"user"`
	Roles          string   `json:"roles"`
	InboxPrefix    string   `json:"inbox_prefix"`
	Publish        []string `json:"publish"`
	Subscribe      []string `json:"subscribe"`
	AllowResponses bool     `json:"allow_responses,omitempty"`
}

func permissionsCommand(a *app) *cobra.Command {
	var roles []string
	var user, nkey, passwordFile string
	var noDocuments bool
	cmd := &cobra.Command{
		Use:   "permissions --role ROLE[,ROLE…] --user NAME",
		Short: "Print what a user of a NATS server needs for some roles",
		Long: "Prints the users block of a nats-server configuration, to paste or include into its authorization or into\n" +
			"the account that the engine uses. Its subjects are those that the embedded server permits a user with these\n" +
			"roles. The user's programs must use the inbox prefix _INBOX_NAME; those of this project do by themselves\n" +
			"with the user's name in the URL, and with --inbox-prefix else.\n\n" +
			"What is printed has only the bcrypt hash of the password, which is that of --password-file (- for standard\n" +
			"input), or a new one, shown once on standard error.",
		Example: "  engine permissions --role work --user workers > workers.conf   # and: authorization { include workers.conf }",
		Args:    console.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			set, err := access.ParseRoles(roles)
			if err != nil {
				return console.Usagef("--role: %v", err)
			}
			if !access.IsUser(user) {
				return console.Usagef("--user: %q is no name for a user: use letters, digits, - and _, at most %d", user, access.MaxUserLen)
			}
			if nkey != "" && !nkeys.IsValidPublicUserKey(nkey) {
				return console.Usagef("--nkey: %q is no user's public key: it begins with U", nkey)
			}
			g := access.Grant{Names: wire.WithPrefix(a.Prefix), Partitions: 1, User: user, Roles: set, NoDocuments: noDocuments}
			login := "nkey: " + nkey
			if nkey == "" && !a.JSON {
				if login, err = a.passwordLogin(user, passwordFile); err != nil {
					return err
				}
			}
			return a.printPermissions(g, login)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&roles, "role", nil, "the `roles`: submit, work, read, operate")
	f.StringVar(&user, "user", "", "the user's `name`")
	f.StringVar(&nkey, "nkey", "", "the user's public `key`, in place of a password")
	f.StringVar(&passwordFile, "password-file", "", "the `file` whose first line is the password; - for standard input")
	cmd.MarkFlagsMutuallyExclusive("nkey", "password-file")
	f.BoolVar(&noDocuments, "no-documents", false, "without the object store of large params and results")
	return cmd
}

// passwordCost is that of the bcrypt hash: what nats-server's own tool takes.
const passwordCost = 11

// passwordLogin is how nats-server knows a user with a password.
func (a *app) passwordLogin(user, file string) (string, error) {
	password := rand.Text()
	switch file {
	case "":
		a.Notef("the password of %s, shown this once: %s", user, password)
	default:
		in := a.In
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return "", fmt.Errorf("read the password: %w", err)
			}
			defer f.Close()
			in = f
		}
		line, err := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
		if err != nil && err != io.EOF {
			return "", fmt.Errorf("read the password: %w", err)
		}
		password = strings.TrimRight(line, "\r\n")
		if err := config.CheckPassword(password); err != nil {
			return "", fmt.Errorf("the user %s %w", user, err)
		}
	}
	hash := []byte(password)
	if !strings.HasPrefix(password, "$2") {
		var err error
		if hash, err = bcrypt.GenerateFromPassword(hash, passwordCost); err != nil {
			return "", fmt.Errorf("hash the password: %w: use at most 72 characters", err)
		}
	}
	return fmt.Sprintf("user: %q, password: %q", user, hash), nil
}

func (a *app) printPermissions(g access.Grant, login string) error {
	p := g.Permissions()
	if a.JSON {
		return a.PrintJSON(printedPermissions{User: g.User, Roles: g.Roles.String(), InboxPrefix: access.InboxPrefix(g.User), Publish: p.Publish, Subscribe: p.Subscribe, AllowResponses: p.Responses})
	}
	a.Printf("# %s: %s. Inbox prefix: %s\n%s", g.User, strings.ReplaceAll(g.Roles.String(), ",", ", "), access.InboxPrefix(g.User), p.Config(login))
	return nil
}
