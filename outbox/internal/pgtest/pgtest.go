// Package pgtest starts a PostgreSQL server of a test's own.
package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streamwright/streamwright/internal/need"
)

// Server is a PostgreSQL server on the loopback interface.
type Server struct {
	t    testing.TB
	bin  string
	dir  string
	port int
	cmd  *exec.Cmd
}

// Start starts a server, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.Sort(found)
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		need.Missing(t, "there is no PostgreSQL server on the machine (the package postgresql)")
	}
	dir, err := os.MkdirTemp("", "outbox-pg-") // not t.TempDir, which another user can't enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{t: t, bin: filepath.Dir(found[len(found)-1]), dir: dir, port: freePort(t)}
	if u := s.user(); u != nil {
		if err := os.Chown(dir, int(u.Uid), int(u.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := s.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Up()
	t.Cleanup(s.Down)
	return s
}

// user returns the user to run as: PostgreSQL does not run as root.
func (s *Server) user() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		s.t.Fatalf("PostgreSQL does not run as root, and there is no user postgres: %v", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user()}
	return cmd
}

func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// URL returns the connection string.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=5", s.port)
}

// Up starts the server again after Down, on its data.
func (s *Server) Up() {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = s.command("postgres", "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			s.t.Fatalf("PostgreSQL does not come up: %v\n%s", err, text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Down ends the server, and every connection with it.
func (s *Server) Down() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown
	_ = s.cmd.Wait()
	s.cmd = nil
}
