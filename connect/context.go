package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxContextBytes bounds the file of a context.
const maxContextBytes = 1 << 20

// natsContext is the file of a context as the nats program writes it.
type natsContext struct {
	URL         string `json:"url"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	Nkey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	Domain      string `json:"jetstream_domain"`
	InboxPrefix string `json:"inbox_prefix"`
	TLSFirst    bool   `json:"tls_first"`

	// What this program does not do.
	SocksProxy string `json:"socks_proxy"`
	APIPrefix  string `json:"jetstream_api_prefix"`
	NSC        string `json:"nsc"`
	UserJWT    string `json:"user_jwt"`
	WinStore   string `json:"windows_cert_store"`
}

// Resolve checks the settings and takes those that are not set from the
// context, if one is named.
func (s Settings) Resolve() (Settings, error) {
	if s.Context == "" {
		return s, s.Check("the connection")
	}
	c, err := readContext(s.Context)
	if err != nil {
		return s, fmt.Errorf("read the NATS context %s: %w", s.Context, err)
	}
	if err := c.Check("the NATS context " + s.Context); err != nil {
		return s, err
	}
	s = Merge(s, c)
	return s, s.Check("the connection")
}

func readContext(name string) (Settings, error) {
	path, err := contextPath(name)
	if err != nil {
		return Settings{}, err
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Settings{}, fmt.Errorf("there is no file %s: `nats context ls` shows those that there are, `nats context add` makes one", path)
	}
	if err != nil {
		return Settings{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxContextBytes))
	if err != nil {
		return Settings{}, err
	}
	var c natsContext
	if err := json.Unmarshal(data, &c); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	for _, x := range []struct{ key, value string }{
		{"socks_proxy", c.SocksProxy}, {"jetstream_api_prefix", c.APIPrefix}, {"nsc", c.NSC}, {"user_jwt", c.UserJWT}, {"windows_cert_store", c.WinStore},
	} {
		if x.value != "" {
			return Settings{}, fmt.Errorf("%s has %s, which this program does not know: use a context without it (credentials can be in a file, creds; a JetStream elsewhere is named by jetstream_domain)", path, x.key)
		}
	}
	return Settings{
		URL: c.URL, Creds: expand(os.ExpandEnv(c.Creds)), Nkey: expand(c.Nkey), User: c.User, Password: c.Password, Token: c.Token,
		CA: expand(c.CA), Cert: expand(c.Cert), Key: expand(c.Key), TLSFirst: c.TLSFirst, Domain: c.Domain, InboxPrefix: c.InboxPrefix,
	}, nil
}

// contextPath returns the path at which the nats program keeps a context.
func contextPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "..") || strings.ContainsAny(name, `/\`) {
		return "", errors.New("that is no name of a context, and no absolute path of one's file")
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "nats", "context", name+".json"), nil
}

// expand puts the user's home in the place of a ~ that a path begins with.
func expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
