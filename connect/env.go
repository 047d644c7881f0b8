package connect

import "errors"

// Env is a setting's name in the environment, which is the nats program's.
var Env = struct {
	URL, Context, Creds, Nkey, User, Password, PasswordFile, Token, CA, Cert, Key, TLSFirst, Domain, InboxPrefix string
}{
	"NATS_URL", "NATS_CONTEXT", "NATS_CREDS", "NATS_NKEY", "NATS_USER", "NATS_PASSWORD", "NATS_PASSWORD_FILE", "NATS_TOKEN",
	"NATS_CA", "NATS_CERT", "NATS_KEY", "NATS_TLS_FIRST", "NATS_JS_DOMAIN", "NATS_INBOX_PREFIX",
}

// FromEnv reads the settings that the environment has; getenv is os.Getenv.
func FromEnv(getenv func(string) string) Settings {
	first := getenv(Env.TLSFirst)
	return Settings{
		URL: getenv(Env.URL), Context: getenv(Env.Context), Creds: getenv(Env.Creds), Nkey: getenv(Env.Nkey),
		User: getenv(Env.User), Password: getenv(Env.Password), PasswordFile: getenv(Env.PasswordFile), Token: getenv(Env.Token),
		CA: getenv(Env.CA), Cert: getenv(Env.Cert), Key: getenv(Env.Key), TLSFirst: first == "1" || first == "true",
		Domain: getenv(Env.Domain), InboxPrefix: getenv(Env.InboxPrefix),
	}
}

// FromPlaces are the settings of a program: what its flags say, then the
// context that they name, then the environment, then the context that that
// names. The error matches ErrConflict if flags or environment contradict
// themselves.
func FromPlaces(flags Settings, getenv func(string) string) (Settings, error) {
	env := FromEnv(getenv)
	if err := errors.Join(flags.Check("the command line"), env.Check("the environment")); err != nil {
		return Settings{}, err
	}
	if flags.Context != "" {
		named, err := flags.Resolve()
		if err != nil {
			return Settings{}, err
		}
		flags = named
		flags.Context, env.Context = "", ""
	}
	return Merge(flags, env).Resolve()
}
