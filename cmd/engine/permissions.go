package main

import (
	"bufio"
	"crypto/rand"
	"errors"
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

// printedGrant is what the command was asked for.
type printedGrant struct {
	access.Grant
	kind        string // the roles
	permissions access.Permissions
}

// The kinds of users that are no roles of the engine's API.
const (
	kindEngine  = "engine"  // the engine itself
	kindPublish = "publish" // who submits by plain publishes, and asks nothing
)

// is computes the permissions of some roles, or of a kind.
func (g *printedGrant) is(roles, answered, subjects []string) error {
	g.kind = strings.Join(roles, ",")
	if g.kind != kindEngine && len(answered)+len(subjects) > 0 {
		return errors.New("--answer and --ask are for --role engine")
	}
	switch g.kind {
	case kindEngine:
		for _, u := range answered {
			if !access.IsUser(u) {
				return fmt.Errorf("--answer: %q is no name for a user", u)
			}
		}
		g.permissions = access.EngineGrant{Grant: g.Grant, Answered: answered, Subjects: subjects}.Permissions()
		return nil
	case kindPublish:
		g.permissions = g.PublishPermissions()
		return nil
	}
	set, err := access.ParseRoles(roles)
	if err != nil {
		return fmt.Errorf("--role: %w (publish and engine stand by themselves)", err)
	}
	g.Roles = set
	g.kind, g.permissions = set.String(), g.Permissions()
	return nil
}

func permissionsCommand(a *app) *cobra.Command {
	var roles, answered, subjects []string
	var user, nkey, passwordFile string
	var noDocuments, certificate bool
	cmd := &cobra.Command{
		Use:   "permissions --role ROLE[,ROLE…] --user NAME",
		Short: "Print what a user of a NATS server needs for some roles",
		Long: "Prints the users block of a nats-server configuration, to paste or include into its authorization or into\n" +
			"the account that the engine uses. Its subjects are those that the embedded server permits a user with these\n" +
			"roles. The user's programs must use the inbox prefix _INBOX_NAME; those of this project do by themselves\n" +
			"with the user's name in the URL, and with --inbox-prefix else.\n\n" +
			"What is printed has only the bcrypt hash of the password, which is that of --password-file (- for standard\n" +
			"input), or a new one, shown once on standard error.",
		Example: "  engine permissions --role work --user workers > workers.conf   # and: authorization { include workers.conf }\n" +
			"  engine permissions --role engine --user engine --answer workers,feeder > engine.conf",
		Args: console.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if !access.IsUser(user) {
				return console.Usagef("--user: %q is no name for a user: use letters, digits, - and _, at most %d", user, access.MaxUserLen)
			}
			if nkey != "" && !nkeys.IsValidPublicUserKey(nkey) {
				return console.Usagef("--nkey: %q is no user's public key: it begins with U", nkey)
			}
			names := wire.WithPrefix(a.Prefix).In(a.Flagged.Domain)
			g := printedGrant{Grant: access.Grant{Names: names, Partitions: 1, User: user, NoDocuments: noDocuments}}
			err := g.is(roles, answered, subjects)
			if err != nil {
				return console.Usage(err)
			}
			login := "nkey: " + nkey
			if certificate {
				login = fmt.Sprintf("user: %q", user)
			} else if nkey == "" && !a.JSON {
				if login, err = a.passwordLogin(user, passwordFile); err != nil {
					return err
				}
			}
			return a.printPermissions(g, login)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&roles, "role", nil, "the `roles`: submit, work, read, operate; or, by itself, publish (plain publishes alone) or engine")
	f.StringSliceVar(&answered, "answer", nil, "with --role engine: the `names` of the users that it answers")
	f.StringSliceVar(&subjects, "ask", nil, "with --role engine: a `subject` that it asks, that of [dedup_hook]")
	f.StringVar(&user, "user", "", "the user's `name`")
	f.StringVar(&nkey, "nkey", "", "the user's public `key`, in place of a password")
	f.StringVar(&passwordFile, "password-file", "", "the `file` whose first line is the password; - for standard input")
	f.BoolVar(&certificate, "certificate", false, "the user is known by a client certificate with this name (verify_and_map), in place of a password")
	cmd.MarkFlagsMutuallyExclusive("nkey", "password-file", "certificate")
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

func (a *app) printPermissions(g printedGrant, login string) error {
	p := g.permissions
	if a.JSON {
		return a.PrintJSON(printedPermissions{User: g.User, Roles: g.kind, InboxPrefix: access.InboxPrefix(g.User), Publish: p.Publish, Subscribe: p.Subscribe, AllowResponses: p.Responses})
	}
	a.Printf("# %s: %s. Inbox prefix: %s\n%s", g.User, strings.ReplaceAll(g.kind, ",", ", "), access.InboxPrefix(g.User), p.Config(login))
	return nil
}
