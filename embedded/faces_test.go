package embedded

import "testing"

// What everyone may read of the NATS server's address has no password.
func TestPublicURL(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "nats://ann:s3cret@a:1, tls://t0ken@b:2": "nats://a:1,tls://b:2",
		"c:4222": "nats://c:4222", "ann:p@ss@d:1": "nats://d:1", "nats://[::1]:4222": "nats://[::1]:4222",
	} {
		if got := publicURL(in); got != want {
			t.Errorf("of %q is shown %q, not %q", in, got, want)
		}
	}
}
