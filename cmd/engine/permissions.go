package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/cli"
	"github.com/streamwright/streamwright/wire"
)

// kindPublish names the role of users who only publish submissions.
const kindPublish = "publish"

// permissionFlags are the flags of the command.
type permissionFlags struct {
	users        []string // NAME=ROLE+ROLE…
	namespaces   []string
	engine       string
	subjects     []string
	passwords    map[string]string // files by user
	nkeys        map[string]string // keys by user
	certificates []string
	noDocuments  []string
	noPublish    []string
}

func permissionsCommand(a *app) *cobra.Command {
	var p permissionFlags
	cmd := &cobra.Command{
		Use:   "permissions --user NAME=ROLE[+ROLE…]…",
		Short: "Print the NATS accounts of an engine and its users",
		Long: `Print the accounts block of a nats-server configuration, for an existing server:
the account of the engine, which has the streams, and for each user an account
that imports what the user's roles need. A user's own account is what keeps the
user to its roles: put two users into one, and what either is answered can be
made to reach the other's imports.

The embedded server does the same for [[nats.users]]. Roles are submit, work,
read and operate; or, by itself, publish, for plain publishes alone. They are
those in the namespace default; acme/submit is the role in the namespace acme,
and */submit that in every one. The engine's user gets all namespaces that are
named, here or with --namespace: print the accounts again when you add one.

Of passwords only the bcrypt hashes are printed: those of --password-file (- for
standard input), or new ones, shown once on standard error. A password has 12
characters or more. With --json there are no logins: it is for those who make
JWTs.`,
		Example: "  engine permissions --user feeder=submit --user ops=operate > accounts.conf\n" +
			"  engine permissions --namespace acme --user in=acme/submit --user ops=acme/read\n" +
			"  engine permissions --user workers=work --certificate workers",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			accounts, err := p.accounts(wire.WithPrefix(a.Prefix).In(a.Flagged.Domain))
			if err != nil {
				return cli.Usage(err)
			}
			if a.JSON {
				return a.PrintJSON(jsonAccounts(accounts))
			}
			logins, err := p.logins(a, accounts)
			if err != nil {
				return err
			}
			accounts.Login = func(user string) string { return logins[user] }
			for _, g := range accounts.Grants {
				a.Printf("# %s: %s\n", g.User, strings.ReplaceAll(rolesOf(g), ",", ", "))
			}
			a.Printf("%s", accounts.Config())
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&p.users, "user", nil, "a user and its roles, `NAME=ROLE[+ROLE…]`; repeat it for each")
	f.StringSliceVar(&p.namespaces, "namespace", nil, "the `names` of namespaces, beside those that the users' roles name")
	f.StringVar(&p.engine, "engine", "engine", "the `name` of the engine's own user")
	f.StringSliceVar(&p.subjects, "ask", nil, "a `subject` that the engine asks, that of [dedup_hook]")
	f.Func("password-file", "a user and the file whose first line is its password, of 12 characters or more, or the bcrypt hash of it, `NAME=FILE`; - for standard input", onePerUser(&p.passwords, "NAME=FILE"))
	f.Func("nkey", "a user and its public key, in place of a password, `NAME=KEY`", onePerUser(&p.nkeys, "NAME=KEY"))
	f.StringSliceVar(&p.certificates, "certificate", nil, "the `names` of users who are known by a client certificate with that name (verify_and_map), in place of a password")
	f.StringSliceVar(&p.noDocuments, "no-documents", nil, "the `names` of users without the object store of large params and results")
	f.StringSliceVar(&p.noPublish, "no-publish", nil, "the `names` of users without plain publishes, which no quota counts: requests alone")
	return cmd
}

// accounts computes the accounts, without logins, and checks the flags.
func (p permissionFlags) accounts(n wire.Names) (access.Accounts, error) {
	out := access.Accounts{Names: n, Engine: access.EngineGrant{Names: n, Partitions: 1, User: p.engine, Subjects: p.subjects}}
	if !access.IsUser(p.engine) {
		return out, fmt.Errorf("--engine: %w", badUser(p.engine))
	}
	for _, name := range p.namespaces {
		ns, err := events.ParseNamespace(name)
		if err != nil {
			return out, fmt.Errorf("--namespace: %w", err)
		}
		out.Engine.Namespaces = append(out.Engine.Namespaces, ns)
	}
	names := []string{p.engine}
	for _, s := range p.users {
		g, err := parseGrant(s, n)
		if err != nil {
			return out, fmt.Errorf("--user: %w", err)
		}
		if slices.Contains(names, g.User) {
			return out, fmt.Errorf("--user: %s is there twice: give all its roles at once, such as %s=read+operate", g.User, g.User)
		}
		g.NoDocuments, g.NoPublish = slices.Contains(p.noDocuments, g.User), slices.Contains(p.noPublish, g.User)
		names, out.Grants = append(names, g.User), append(out.Grants, g)
		out.Engine.Namespaces = append(out.Engine.Namespaces, g.Roles.Named()...)
	}
	out.Engine.Namespaces = beside(out.Engine.Namespaces)
	for i := range out.Grants {
		out.Grants[i].Namespaces = out.Engine.Namespaces
	}
	if len(out.Grants) == 0 {
		return out, errors.New("there is no user: give --user NAME=ROLE, such as --user feeder=submit")
	}
	for _, given := range []struct {
		flag  string
		names []string
	}{{"certificate", p.certificates}, {"no-documents", p.noDocuments}, {"no-publish", p.noPublish}, {"password-file", users(p.passwords)}, {"nkey", users(p.nkeys)}} {
		for _, name := range given.names {
			if !slices.Contains(names, name) {
				return out, fmt.Errorf("--%s: there is no user %q: give it with --user", given.flag, name)
			}
		}
	}
	for _, user := range users(p.passwords) {
		if p.passwords[user] == "" {
			return out, fmt.Errorf("--password-file: %s has no file: use NAME=FILE", user)
		}
	}
	for _, user := range users(p.nkeys) {
		if key := p.nkeys[user]; !nkeys.IsValidPublicUserKey(key) {
			return out, fmt.Errorf("--nkey: %q is not a user's public key: it begins with U", key)
		}
	}
	return out, nil
}

// beside returns the namespaces beside default, sorted and each once.
func beside(list []events.Namespace) []events.Namespace {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(ns events.Namespace) bool { return ns == events.DefaultNamespace })
}

// onePerUser decodes NAME=VALUE, and refuses a second value for a name.
func onePerUser(dst *map[string]string, form string) func(string) error {
	return func(s string) error {
		before := len(*dst)
		if err := console.Pairs(dst, form)(s); err != nil {
			return err
		}
		if len(*dst) == before {
			return errors.New("this user is given twice: give each user once")
		}
		return nil
	}
}

func users(logins map[string]string) []string { return slices.Sorted(maps.Keys(logins)) }

func badUser(name string) error {
	return fmt.Errorf("invalid name %q: use letters, digits, - and _, at most %d", name, access.MaxUserLen)
}

// parseGrant reads NAME=ROLE[+ROLE…], the roles as access.ParseMemberships does. A comma
// separates them as well.
func parseGrant(s string, n wire.Names) (g access.Grant, err error) {
	name, roles, _ := strings.Cut(s, "=")
	if !access.IsUser(name) {
		return g, badUser(name)
	}
	g = access.Grant{Names: n, User: name}
	list := strings.FieldsFunc(roles, func(r rune) bool { return r == '+' || r == ',' })
	if publishOnly(list) {
		g.PublishOnly = true
		for i, s := range list {
			list[i] = strings.TrimSuffix(s, kindPublish) + access.Submit.String()
		}
	}
	if g.Roles, err = access.ParseMemberships(list); err != nil {
		return g, fmt.Errorf("%s: %w (publish stands by itself)", name, err)
	}
	return g, nil
}

// publishOnly reports whether all roles of a list are publish, in some namespaces.
func publishOnly(list []string) bool {
	for _, s := range list {
		if s != kindPublish && !strings.HasSuffix(s, "/"+kindPublish) {
			return false
		}
	}
	return len(list) > 0
}

// rolesOf spells the roles of a user as --user takes them, with commas.
func rolesOf(g access.Grant) string {
	words := strings.Split(g.Roles.String(), ",")
	for i, w := range words {
		if g.PublishOnly {
			words[i] = strings.TrimSuffix(w, access.Submit.String()) + kindPublish
		}
	}
	return strings.Join(words, ",")
}

// logins returns what identifies each user to nats-server.
func (p permissionFlags) logins(a *app, accounts access.Accounts) (map[string]string, error) {
	logins := map[string]string{}
	users := []string{accounts.Engine.User}
	for _, g := range accounts.Grants {
		users = append(users, g.User)
	}
	in := bufio.NewReader(io.LimitReader(a.stdin, maxPasswords))
	for _, u := range users {
		key, file, certificate := p.nkeys[u], p.passwords[u], slices.Contains(p.certificates, u)
		if key != "" && file != "" || certificate && key+file != "" {
			return nil, cli.Usagef("%s has more than one of --nkey, --password-file and --certificate: give one", u)
		}
		switch {
		case key != "":
			logins[u] = "nkey: " + key
		case certificate:
			logins[u] = fmt.Sprintf("user: %q", u)
		default:
			login, err := passwordLogin(a, u, file, in)
			if err != nil {
				return nil, err
			}
			logins[u] = login
		}
	}
	return logins, nil
}

const (
	// passwordCost is the cost of the bcrypt hash, as nats-server's own tool has it.
	passwordCost = 11
	// maxPassword bounds a password's line in a file, and maxPasswords all that is
	// read from standard input, in bytes.
	maxPassword  = 1024
	maxPasswords = 1 << 20
)

// passwordLogin returns what identifies a user with a password. in is standard
// input, with a line for each password that is read from it.
func passwordLogin(a *app, user, file string, in *bufio.Reader) (string, error) {
	password := rand.Text()
	switch file {
	case "":
		a.Notef("the password of %s, shown this once: %s", user, password)
	default:
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return "", fmt.Errorf("read the password: %w", err)
			}
			defer f.Close()
			in = bufio.NewReader(io.LimitReader(f, maxPassword))
		}
		line, err := in.ReadString('\n')
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

// The output for --json.
type (
	printedAccounts struct {
		Accounts []printedAccount `json:"accounts"` // the engine's first
	}
	printedAccount struct {
		Account   string          `json:"account"`
		JetStream bool            `json:"jetstream,omitempty"`
		User      string          `json:"user"`
		Roles     string          `json:"roles,omitempty"`
		Publish   []string        `json:"publish"`
		Subscribe []string        `json:"subscribe"`
		Exports   []printedExport `json:"exports,omitempty"`
		Imports   []printedImport `json:"imports,omitempty"`
	}
	printedExport struct {
		Type        string   `json:"type"` // stream or service
		Subject     string   `json:"subject"`
		Response    string   `json:"response,omitempty"` // of a service: Singleton or Stream
		ThresholdMS int64    `json:"response_threshold_ms,omitempty"`
		Accounts    []string `json:"accounts"` // that may import it, and no others
	}
	printedImport struct {
		Type    string `json:"type"`
		Account string `json:"account"`
		Subject string `json:"subject"`
		Local   string `json:"local"`
	}
)

func jsonAccounts(a access.Accounts) printedAccounts {
	p := a.Engine.Permissions()
	engine := printedAccount{Account: a.Names.Account(), JetStream: true, User: a.Engine.User, Publish: p.Publish, Subscribe: p.Subscribe}
	for _, e := range access.Exports(a.Grants) {
		out := printedExport{Type: typeOf(e.Flow), Subject: e.Subject, Accounts: e.Accounts}
		switch e.Flow {
		case access.Pull:
			out.Response = "Stream"
		case access.Long:
			out.Response, out.ThresholdMS = "Stream", access.MaxProgress.Milliseconds()
		case access.Question:
			out.Response, out.ThresholdMS = "Singleton", access.MaxAnswer.Milliseconds()
		case access.Request:
			out.Response = "Singleton"
		}
		engine.Exports = append(engine.Exports, out)
	}
	all := []printedAccount{engine}
	for _, g := range a.Grants {
		p := g.Permissions()
		user := printedAccount{Account: g.Names.UserAccount(g.User), User: g.User, Roles: rolesOf(g), Publish: p.Publish, Subscribe: p.Subscribe}
		for _, i := range g.Imports() {
			user.Imports = append(user.Imports, printedImport{Type: typeOf(i.Flow), Account: engine.Account, Subject: i.Subject, Local: i.Local})
		}
		all = append(all, user)
	}
	return printedAccounts{all}
}

func typeOf(f access.Flow) string {
	if f == access.Messages {
		return "stream"
	}
	return "service"
}
