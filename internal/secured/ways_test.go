package secured

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"

	"github.com/streamwright/streamwright/connect"
)

const password = "correct horse battery"

// passwords is a server whose users have one password and exactly what they
// need.
func passwords(t *testing.T) (url, file string) {
	file = write(t, filepath.Join(t.TempDir(), "password"), password+"\n")
	hash := hashed(t)
	auth := accounts(t, func(user string) []string { return []string{"--password-file", user + "=" + hash} })
	return natsServer(t, "jetstream { store_dir: STORE }\n"+auth).ClientURL(), file
}

// hashed is a file with the password's hash, of the least cost: with the race
// detector the usual one takes seconds at each connection.
func hashed(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "hash"), string(hash)+"\n")
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	url, file := passwords(t)
	tour(t, way{url: url,
		login: func(user string) login {
			switch user {
			case "engine": // the password is in the environment
				return login{[]string{"--user", user}, []string{"NATS_PASSWORD=" + password}}
			case "read": // so is all
				return login{nil, []string{"NATS_USER=" + user, "NATS_PASSWORD_FILE=" + file}}
			}
			return login{[]string{"--user", user, "--password-file", file}, nil}
		},
		conn: func(user string) connect.Settings { return connect.Settings{User: user, PasswordFile: file} },
	})
}

func TestContexts(t *testing.T) {
	t.Parallel()
	url, _ := passwords(t)
	home := t.TempDir()
	for _, u := range users {
		data, err := json.Marshal(map[string]string{"description": "test", "url": url, "user": u, "password": password})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(home, "nats", "context", u+".json"), string(data))
	}
	env := []string{"XDG_CONFIG_HOME=" + home}
	// Without --nats-url: the server is the context's.
	server := login{[]string{"--context", "engine"}, env}.begin(t, "engine", "serve", "--http", "off", "--dir", t.TempDir())
	server.says("engine ready")
	visit(t, way{url: url,
		login: func(user string) login {
			if user == "read" { // the flag counts, and not what the environment has
				return login{[]string{"--context", user}, append([]string{"NATS_USER=nobody", "NATS_PASSWORD=wrong"}, env...)}
			}
			return login{nil, append([]string{"NATS_CONTEXT=" + user}, env...)}
		},
		conn: func(user string) connect.Settings {
			return connect.Settings{Context: filepath.Join(home, "nats", "context", user+".json")}
		},
	})
	server.end()
	login{[]string{"--context", "nobody"}, env}.run(t, "status").wants(t, 1, "there is no file", "bad_config")
}

func TestNkeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := func(user string) string { return filepath.Join(dir, user+".nk") }
	auth := accounts(t, func(user string) []string {
		public, secret := newUser(t)
		write(t, seed(user), secret+"\n")
		return []string{"--nkey", user + "=" + public}
	})
	url := natsServer(t, "jetstream { store_dir: STORE }\n"+auth).ClientURL()
	tour(t, way{url: url,
		login: func(user string) login {
			return login{[]string{"--nkey", seed(user)}, nil}
		},
		conn: func(user string) connect.Settings { return connect.Settings{Nkey: seed(user)} },
	})
}

func newUser(t *testing.T) (public, seed string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	return describe(t, pair)
}

func describe(t *testing.T, pair nkeys.KeyPair) (public, seed string) {
	t.Helper()
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return public, string(secret)
}

// An operator with an account for the engine, and one for each user, made from
// what the command prints with --json.
func TestCredentials(t *testing.T) {
	t.Parallel()
	op := newOperator(t)
	dir := t.TempDir()
	creds := func(user string) string { return filepath.Join(dir, user+".creds") }
	for user, text := range op.users(t) {
		write(t, creds(user), text)
	}
	url := natsServer(t, op.config(t)).ClientURL()
	tour(t, way{url: url,
		login: func(user string) login {
			if user == "operate" {
				return login{nil, []string{"NATS_CREDS=" + creds(user), "NATS_INBOX_PREFIX=_INBOX_" + user}}
			}
			return login{[]string{"--creds", creds(user)}, nil}
		},
		conn: func(user string) connect.Settings { return connect.Settings{Creds: creds(user)} },
	})
}
