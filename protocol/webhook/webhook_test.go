package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const (
	newKey = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	oldKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

var (
	body = []byte(`{"type":"pose.completed","data":{"analysisId":"an_1","name":"Zoë"}}`)
	now  = time.Unix(1_796_000_000, 0)
)

func secrets(t testing.TB, list string) []webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecrets(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func verifier(t testing.TB, list string) *webhook.Verifier {
	t.Helper()
	v := webhook.NewVerifier(secrets(t, list))
	v.Now = func() time.Time { return now }
	return v
}

func TestRotation(t *testing.T) {
	t.Parallel()
	both := webhook.NewSigner(secrets(t, newKey+","+oldKey)).Header("res_an_1_7", now, body)
	if n := len(both.Values(webhook.HeaderSignature)); n != 1 {
		t.Fatalf("%d signature lines, want 1", n)
	}
	for _, list := range []string{newKey, oldKey, oldKey + "," + newKey} {
		id, err := verifier(t, list).Verify(both, body)
		if err != nil || id != "res_an_1_7" {
			t.Errorf("verify with either secret: %q, %v", id, err)
		}
	}
	retired := webhook.NewSigner(secrets(t, oldKey)).Header("res_an_1_7", now, body)
	if _, err := verifier(t, newKey).Verify(retired, body); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("a retired secret: %v", err)
	}
}

func TestLibraryAgrees(t *testing.T) {
	t.Parallel()
	library, err := standardwebhooks.NewWebhook(oldKey)
	if err != nil {
		t.Fatal(err)
	}
	ours := webhook.NewSigner(secrets(t, newKey+","+oldKey)).Header("msg_1", time.Now(), body)
	if err := library.Verify(body, ours); err != nil {
		t.Errorf("the library refuses ours: %v", err)
	}
	signature, err := library.Sign("msg_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	theirs := http.Header{}
	theirs.Set(webhook.HeaderID, "msg_1")
	theirs.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	theirs.Set(webhook.HeaderSignature, signature)
	if _, err := verifier(t, oldKey).Verify(theirs, body); err != nil {
		t.Errorf("we refuse the library's: %v", err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	good := func() http.Header { return webhook.NewSigner(secrets(t, newKey)).Header("msg_1", now, body) }
	signedAt := func(at time.Time) http.Header {
		return webhook.NewSigner(secrets(t, newKey)).Header("msg_1", at, body)
	}
	set := func(name, value string) http.Header { h := good(); h.Set(name, value); return h }
	without := func(name string) http.Header { h := good(); h.Del(name); return h }
	twice := func(name string) http.Header { h := good(); h.Add(name, h.Get(name)); return h }
	signature := strings.TrimPrefix(good().Get(webhook.HeaderSignature), "v1,")
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		header http.Header
		body   []byte
		want   error
	}{
		{"no id", without(webhook.HeaderID), body, webhook.ErrHeader},
		{"no timestamp", without(webhook.HeaderTimestamp), body, webhook.ErrHeader},
		{"no signature", without(webhook.HeaderSignature), body, webhook.ErrHeader},
		{"id twice", twice(webhook.HeaderID), body, webhook.ErrHeader},
		{"timestamp twice", twice(webhook.HeaderTimestamp), body, webhook.ErrHeader},
		{"signature twice", twice(webhook.HeaderSignature), body, webhook.ErrHeader},
		{"signature in another case as well", func() http.Header {
			h := good()
			h["webhook-signature"] = h.Values(webhook.HeaderSignature)
			return h
		}(), body, webhook.ErrHeader},
		{"empty id", set(webhook.HeaderID, ""), body, webhook.ErrHeader},
		{"id with a dot", webhook.NewSigner(secrets(t, newKey)).Header("msg.1", now, body), body, webhook.ErrHeader},
		{"id with a space", webhook.NewSigner(secrets(t, newKey)).Header("msg 1", now, body), body, webhook.ErrHeader},
		{"long id", webhook.NewSigner(secrets(t, newKey)).Header(strings.Repeat("a", 257), now, body), body, webhook.ErrHeader},
		{"empty timestamp", set(webhook.HeaderTimestamp, ""), body, webhook.ErrHeader},
		{"text timestamp", set(webhook.HeaderTimestamp, "soon"), body, webhook.ErrTimestamp},
		{"negative timestamp", set(webhook.HeaderTimestamp, "-1"), body, webhook.ErrTimestamp},
		{"signed timestamp", set(webhook.HeaderTimestamp, "+1796000000"), body, webhook.ErrTimestamp},
		{"leading zero", set(webhook.HeaderTimestamp, "01796000000"), body, webhook.ErrTimestamp},
		{"fraction", set(webhook.HeaderTimestamp, "1796000000.0"), body, webhook.ErrTimestamp},
		{"space", set(webhook.HeaderTimestamp, " 1796000000"), body, webhook.ErrTimestamp},
		{"too big", set(webhook.HeaderTimestamp, "9999999999999999999"), body, webhook.ErrTimestamp},
		{"milliseconds", signedAt(time.Unix(now.UnixMilli(), 0)), body, webhook.ErrStale},
		{"far future", signedAt(now.Add(6 * time.Minute)), body, webhook.ErrStale},
		{"far past", signedAt(now.Add(-6 * time.Minute)), body, webhook.ErrStale},
		{"just past the window", signedAt(now.Add(-5*time.Minute - time.Second)), body, webhook.ErrStale},
		{"timestamp changed", set(webhook.HeaderTimestamp, "1796000001"), body, webhook.ErrSignature},
		{"id changed", set(webhook.HeaderID, "msg_2"), body, webhook.ErrSignature},
		{"body changed", good(), []byte(`{}`), webhook.ErrSignature},
		{"empty body", good(), nil, webhook.ErrSignature},
		{"other scheme only", set(webhook.HeaderSignature, "v1a,"+signature), body, webhook.ErrSignature},
		{"upper-case scheme", set(webhook.HeaderSignature, "V1,"+signature), body, webhook.ErrSignature},
		{"no scheme", set(webhook.HeaderSignature, signature), body, webhook.ErrSignature},
		{"hex", set(webhook.HeaderSignature, fmt.Sprintf("v1,%x", raw)), body, webhook.ErrSignature},
		{"cut", set(webhook.HeaderSignature, "v1,"+signature[:10]), body, webhook.ErrSignature},
		{"empty MAC", set(webhook.HeaderSignature, "v1,"), body, webhook.ErrSignature},
		{"only a comma", set(webhook.HeaderSignature, ","), body, webhook.ErrSignature},
		{"1 MB", set(webhook.HeaderSignature, "v1,"+strings.Repeat("A", 1<<20)), body, webhook.ErrHeader},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := verifier(t, newKey).Verify(tc.header, tc.body)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", errors.Unwrap(err), tc.want)
			}
			fault, ok := errors.AsType[*protocol.Fault](err)
			if !ok || fault.Code != protocol.CodeUnauthorized || fault.Retryable {
				t.Fatalf("not an unauthorized fault: %#v", err)
			}
			if fault.Message != "the signature is missing or not valid" {
				t.Errorf("the message tells which check failed: %q", fault.Message)
			}
		})
	}
}

func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	signed := func(at time.Time) http.Header {
		return webhook.NewSigner(secrets(t, newKey)).Header("msg_1", at, body)
	}
	mixed := signed(now)
	mixed.Set(webhook.HeaderSignature, "v1a,xyz v1,AAAA "+mixed.Get(webhook.HeaderSignature)+" v2,abc")
	lower := http.Header{}
	for name, values := range signed(now) {
		lower[strings.ToLower(name)] = values
	}
	tests := []struct {
		name   string
		header http.Header
	}{
		{"now", signed(now)},
		{"edge of the past", signed(now.Add(-5 * time.Minute))},
		{"edge of the future", signed(now.Add(5 * time.Minute))},
		{"among others", mixed},
		{"lower-case names", lower},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if id, err := verifier(t, newKey).Verify(tc.header, body); err != nil || id != "msg_1" {
				t.Errorf("%q, %v", id, errors.Unwrap(err))
			}
		})
	}
}

func TestNoSecretNoEntry(t *testing.T) {
	t.Parallel()
	h := webhook.NewSigner(nil).Header("msg_1", now, body)
	if _, err := verifier(t, newKey).Verify(h, body); err == nil {
		t.Error("an unsigned message passed")
	}
	empty := webhook.NewVerifier([]webhook.Secret{{}})
	empty.Now = func() time.Time { return now }
	// The MAC under the empty key, which anyone can make.
	library, _ := standardwebhooks.NewWebhookRaw(nil)
	signature, _ := library.Sign("msg_1", now, body)
	h.Set(webhook.HeaderSignature, signature)
	if _, err := empty.Verify(h, body); err == nil {
		t.Error("a message under the empty key passed")
	}
}

func TestParseSecrets(t *testing.T) {
	t.Parallel()
	raw := strings.TrimPrefix(newKey, "whsec_")
	tests := []struct {
		name, in string
		count    int
		want     error
	}{
		{"one", newKey, 1, nil},
		{"two", newKey + "," + oldKey, 2, nil},
		{"newline", newKey + "\n", 1, nil},
		{"CRLF and spaces", " " + newKey + "\r\n, " + oldKey + "\t\r\n", 2, nil},
		{"24 bytes", oldKey, 1, nil},
		{"empty", "", 0, webhook.ErrNoSecret},
		{"blank", " \r\n", 0, webhook.ErrNoSecret},
		{"trailing comma", newKey + ",", 0, webhook.ErrNoSecret},
		{"no prefix", raw, 0, webhook.ErrSecretForm},
		{"other prefix", "whsk_" + raw, 0, webhook.ErrSecretForm},
		{"upper-case prefix", "WHSEC_" + raw, 0, webhook.ErrSecretForm},
		{"double quotes", `"` + newKey + `"`, 0, webhook.ErrSecretForm},
		{"single quotes", `'` + newKey + `'`, 0, webhook.ErrSecretForm},
		{"quotes inside", `whsec_"` + raw + `"`, 0, webhook.ErrSecretForm},
		{"unpadded", strings.TrimRight(newKey, "="), 0, webhook.ErrSecretForm},
		{"URL-safe", "whsec_" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, 15)), 0, webhook.ErrSecretForm},
		{"wrapped", newKey[:20] + "\n" + newKey[20:], 0, webhook.ErrSecretForm},
		{"space inside", newKey[:20] + " " + newKey[20:], 0, webhook.ErrSecretForm},
		{"23 bytes", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)), 0, webhook.ErrSecretLength},
		{"only the prefix", "whsec_", 0, webhook.ErrSecretLength},
		{"second is bad", newKey + ",nonsense", 0, webhook.ErrSecretForm},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := webhook.ParseSecrets(tc.in)
			if !errors.Is(err, tc.want) || len(got) != tc.count {
				t.Fatalf("got %d secrets, %v; want %d, %v", len(got), err, tc.count, tc.want)
			}
			if err != nil && (strings.Contains(err.Error(), raw[:12]) || strings.Contains(err.Error(), "nonsense")) {
				t.Errorf("the error holds the secret: %v", err)
			}
		})
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	secret := secrets(t, newKey)[0]
	raw := strings.TrimPrefix(newKey, "whsec_")
	key, _ := base64.StdEncoding.DecodeString(raw)
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("m", slog.Any("secret", secret), slog.Any("pointer", &secret), slog.Any("list", []webhook.Secret{secret}),
		slog.Any("in", struct{ S webhook.Secret }{secret}))
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", slog.Any("secret", secret), slog.Any("list", []webhook.Secret{secret}))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&log, verb+"\n", secret)
		fmt.Fprintf(&log, verb+"\n", &secret)
		fmt.Fprintf(&log, verb+"\n", []webhook.Secret{secret})
		fmt.Fprintf(&log, verb+"\n", webhook.NewSigner([]webhook.Secret{secret}))
		fmt.Fprintf(&log, verb+"\n", webhook.NewVerifier([]webhook.Secret{secret}))
	}
	encoded, err := json.Marshal(map[string]any{"s": secret, "p": &secret})
	if err != nil {
		t.Fatal(err)
	}
	log.Write(encoded)
	shown := log.String()
	for _, canary := range []string{raw, raw[:8], hex.EncodeToString(key)[:12], fmt.Sprintf("%X", key)[:12], "0 1 2 3 4 5", "0x0, 0x1, 0x2"} {
		if strings.Contains(shown, canary) {
			t.Errorf("%q is shown in\n%s", canary, shown)
		}
	}
	if !strings.Contains(shown, secret.Fingerprint()) || len(secret.Fingerprint()) != 8 {
		t.Errorf("no fingerprint %q in the log", secret.Fingerprint())
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	a, b := webhook.Generate(), webhook.Generate()
	if a == b || secrets(t, a)[0].Fingerprint() == secrets(t, b)[0].Fingerprint() {
		t.Error("two generated secrets are alike")
	}
	if id := webhook.NewID("req"); strings.Contains(id, ".") || id == webhook.NewID("req") {
		t.Errorf("id %q", id)
	}
}

func FuzzParseSecrets(f *testing.F) {
	for _, s := range []string{newKey, oldKey + "," + newKey, "", ",", "whsec_", `"` + newKey + `"`, newKey + "\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		list, err := webhook.ParseSecrets(in)
		if (err == nil) != (len(list) > 0) {
			t.Fatalf("%d secrets with %v", len(list), err)
		}
		if len(in) > 16 && err != nil && strings.Contains(err.Error(), in) {
			t.Fatalf("the error repeats its input: %v", err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	good := webhook.NewSigner(secrets(f, newKey)).Header("msg_1", now, body)
	f.Add("msg_1", "1796000000", good.Get(webhook.HeaderSignature), body)
	f.Add("", "-1", "v1,", []byte{})
	f.Add("a.b", "1e9", "v1,AA== v1", []byte("x"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, payload []byte) {
		h := http.Header{}
		h.Set(webhook.HeaderID, id)
		h.Set(webhook.HeaderTimestamp, timestamp)
		h.Set(webhook.HeaderSignature, signature)
		got, err := verifier(t, newKey).Verify(h, payload)
		if err != nil {
			return
		}
		// Only the seed can pass: nobody guesses a MAC.
		if got != "msg_1" || timestamp != "1796000000" || !bytes.Equal(payload, body) {
			t.Fatalf("%q at %q passed", id, timestamp)
		}
	})
}
