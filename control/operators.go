package control

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/posefleet/posefleet/protocol"
)

// sessionCookie carries a proof of the token, for browsers: those can't send an Authorization header with a page.
const sessionCookie = "posefleet_session"

// actorHeader is how an API caller says who is behind a token that several people share.
const actorHeader = "Posefleet-Actor"

// maxActorLength bounds a person's name.
const maxActorLength = 64

// role is what a caller may do; a higher one may do what a lower one may.
type role int

// Roles.
const (
	roleNone role = iota
	roleRead
	roleOperate
)

// String is the role's part of a session.
func (r role) String() string {
	switch r {
	case roleRead:
		return "read"
	case roleOperate:
		return "operate"
	}

	return "none"
}

// caller is who asks, as far as is known.
type caller struct {
	role role
	// name is what the person calls themself, or ""; means is how they were let in: token or loopback.
	name, means string
}

// actor is the caller in timelines and the ledger.
func (c caller) actor() string {
	if c.name == "" {
		return c.means
	}

	return c.name + " (" + c.means + ")"
}

// operators decides who may use the operator API and the page.
//
//	listener       Host of the request       a token set   answer
//	loopback       loopback                  either        let in to operate, or with the role of the token that is sent
//	loopback       public URL                no            let in to operate
//	loopback       public URL                yes           token or session needed: a proxy on this machine brings people from anywhere
//	loopback       another                   yes           token or session needed
//	other          any                       yes           token or session needed
//	loopback       another                   no            403: a page elsewhere may have led the browser here
//	other          any                       no            403
//
// The API token is for people who operate, the read token for those who look: 401 is for who is not known, 403 for who may not.
type operators struct {
	loopback bool
	public   *url.URL
	tokens   map[role]Token
	// crossOrigin refuses requests that change something and that a page of another origin sent.
	crossOrigin *http.CrossOriginProtection
}

func newOperators(addr net.Addr, public *url.URL, operate, read Token) *operators {
	tcp, ok := addr.(*net.TCPAddr)

	return &operators{
		loopback: ok && tcp.IP.IsLoopback(), public: public, crossOrigin: http.NewCrossOriginProtection(),
		tokens: map[role]Token{roleOperate: operate, roleRead: read},
	}
}

// closed tells whether nobody is let in, because there is no token to ask for.
func (o *operators) closed() bool { return o.tokens[roleOperate] == "" && o.tokens[roleRead] == "" }

// exposed tells whether people who come through a proxy on this machine are let in without a token.
func (o *operators) exposed() bool {
	return o.loopback && o.closed() && !loopbackName(o.public.Hostname())
}

// loopbackName tells whether a host, without a port, is this machine's own.
func loopbackName(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))

	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// open tells whether the request needs no token.
func (o *operators) open(r *http.Request) bool {
	if !o.loopback {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}

	return loopbackName(host) || (o.closed() && host == o.public.Hostname())
}

// check tells who asks, or returns a problem unless they may do what needs the role.
func (o *operators) check(r *http.Request, needs role) (caller, error) {
	if err := o.crossOrigin.Check(r); err != nil {
		return caller{}, refuse(http.StatusForbidden, protocol.CodeUnauthorized, "The request comes from a page of another origin.")
	}
	c := o.known(r)
	if c.role == roleNone && o.open(r) {
		c = caller{role: roleOperate, means: "loopback", name: cleanName(r.Header.Get(actorHeader))}
	}
	switch {
	case c.role >= needs:
		return c, nil
	case c.role != roleNone:
		return c, refuse(http.StatusForbidden, protocol.CodeUnauthorized, "This token is for reading only.")
	case o.closed():
		return c, refuse(http.StatusForbidden, protocol.CodeUnauthorized,
			"Set POSEFLEET_API_TOKEN to use the operator API and the page on an address that is not loopback.")
	}

	return c, refuse(http.StatusUnauthorized, protocol.CodeUnauthorized, "The operator API needs Authorization: Bearer and a token.")
}

// known tells who asks by what they bring.
func (o *operators) known(r *http.Request) caller {
	// The scheme's case does not matter (RFC 9110, section 11.1).
	if scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return caller{role: o.roleOf(strings.TrimSpace(given)), means: "token", name: cleanName(r.Header.Get(actorHeader))}
	}
	if c, err := r.Cookie(sessionCookie); err == nil {
		return o.readSession(c.Value)
	}

	return caller{}
}

// roleOf tells the role of a token. It compares with each, so that its time tells nothing.
func (o *operators) roleOf(given string) role {
	found := roleNone
	for _, r := range []role{roleRead, roleOperate} {
		if token := string(o.tokens[r]); equal(given, token) && token != "" {
			found = r
		}
	}

	return found
}

// session is what a browser gets for the token of the role: ROLE.NAME.PROOF. It ends with the token's replacement.
func (o *operators) session(r role, name string) string {
	head := r.String() + "." + base64.RawURLEncoding.EncodeToString([]byte(name))
	h := hmac.New(sha256.New, []byte(o.tokens[r]))
	h.Write([]byte("posefleet session 2 " + head))

	return head + "." + hex.EncodeToString(h.Sum(nil))
}

func (o *operators) readSession(value string) caller {
	_, encoded, _ := strings.Cut(value, ".")
	encoded, _, _ = strings.Cut(encoded, ".")
	name, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return caller{}
	}
	for _, r := range []role{roleOperate, roleRead} {
		if o.tokens[r] != "" && equal(value, o.session(r, string(name))) {
			return caller{role: r, means: "token", name: string(name)}
		}
	}

	return caller{}
}

// cleanName is a name as a timeline can show it.
func cleanName(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}

		return r
	}, strings.ToValidUTF8(name, "")))
	for len(name) > maxActorLength {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}

	return name
}

// equal compares in constant time, whatever the lengths are.
func equal(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))

	return hmac.Equal(a[:], b[:])
}

// callerKey is the key of the caller in a request's context.
type callerKey struct{}

// callerOf is who asks, once guarded has let them in.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)

	return c
}

// reader and operator guard handlers of the API: those that look, and those that change something.
func (s *Server) reader(h handler) http.HandlerFunc   { return s.guarded(roleRead, h) }
func (s *Server) operator(h handler) http.HandlerFunc { return s.guarded(roleOperate, h) }

func (s *Server) guarded(needs role, h handler) http.HandlerFunc {
	return s.answering(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		c, err := s.operators.check(r, needs)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")

			return err
		}

		return h(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// operatorPage guards a page: a browser that could get in with a token is shown where to give it.
func (s *Server) operatorPage(needs role, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := s.operators.check(r, needs)
		if err == nil {
			h(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))

			return
		}
		if p := asProblem(err); p.status != http.StatusUnauthorized {
			p.write(w)

			return
		}
		s.page.Login(w, r, http.StatusUnauthorized, "")
	}
}

// login is POST /login: it gives the session cookie for a token.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if s.operators.crossOrigin.Check(r) != nil || s.operators.closed() {
		refuse(http.StatusForbidden, protocol.CodeUnauthorized, "There is nothing to log in to.").write(w)

		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequestBytes)
	given := s.operators.roleOf(r.PostFormValue("token"))
	if given == roleNone {
		s.page.Login(w, r, http.StatusUnauthorized, "That is not the token.")

		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: s.operators.session(given, cleanName(r.PostFormValue("name"))), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: s.operators.public.Scheme == "https",
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
