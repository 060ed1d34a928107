package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/posefleet/posefleet/protocol"
)

// sessionCookie carries a proof of the token, for browsers: those can't send an Authorization header with a page.
const sessionCookie = "posefleet_session"

// operators decides who may use the operator API and the page.
//
//	listener       Host of the request       token set   answer
//	loopback       loopback or public URL    either      let in
//	loopback       another                   yes         token or session needed
//	other          any                       yes         token or session needed
//	loopback       another                   no          403: a page elsewhere may have led the browser here
//	other          any                       no          403
type operators struct {
	loopback bool
	public   *url.URL
	token    Token
	// crossOrigin refuses requests that change something and that a page of another origin sent.
	crossOrigin *http.CrossOriginProtection
}

func newOperators(addr net.Addr, public *url.URL, token Token) *operators {
	tcp, ok := addr.(*net.TCPAddr)
	o := &operators{loopback: ok && tcp.IP.IsLoopback(), public: public, token: token, crossOrigin: http.NewCrossOriginProtection()}

	return o
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
	ip := net.ParseIP(strings.Trim(host, "[]"))

	return host == "localhost" || host == o.public.Hostname() || (ip != nil && ip.IsLoopback())
}

// check returns a problem unless the request may go on.
func (o *operators) check(r *http.Request) error {
	if err := o.crossOrigin.Check(r); err != nil {
		return refuse(http.StatusForbidden, protocol.CodeUnauthorized, "The request comes from a page of another origin.")
	}
	if o.open(r) {
		return nil
	}
	if o.token == "" {
		return refuse(http.StatusForbidden, protocol.CodeUnauthorized,
			"Set POSEFLEET_API_TOKEN to use the operator API and the page on an address that is not loopback.")
	}
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && equal(given, string(o.token)) {
		return nil
	}
	if c, err := r.Cookie(sessionCookie); err == nil && equal(c.Value, o.session()) {
		return nil
	}

	return refuse(http.StatusUnauthorized, protocol.CodeUnauthorized, "The operator API needs Authorization: Bearer and the API token.")
}

// session is what a browser gets for the token. It ends with the token's replacement.
func (o *operators) session() string {
	h := hmac.New(sha256.New, []byte(o.token))
	h.Write([]byte("posefleet session 1"))

	return hex.EncodeToString(h.Sum(nil))
}

// equal compares in constant time, whatever the lengths are.
func equal(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))

	return hmac.Equal(a[:], b[:])
}

// operator guards a handler of the API.
func (s *Server) operator(h handler) http.HandlerFunc {
	return s.answering(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := s.operators.check(r); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")

			return err
		}

		return h(w, r)
	})
}

// operatorPage guards a page: a browser that could get in with a token is shown where to give it.
func (s *Server) operatorPage(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.operators.check(r)
		if err == nil {
			h.ServeHTTP(w, r)

			return
		}
		if p := asProblem(err); p.status != http.StatusUnauthorized {
			p.write(w)

			return
		}
		s.page.Login(w, r, http.StatusUnauthorized, "")
	}
}

// login is POST /login: it gives the session cookie for the token.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if s.operators.crossOrigin.Check(r) != nil || s.operators.token == "" {
		refuse(http.StatusForbidden, protocol.CodeUnauthorized, "There is nothing to log in to.").write(w)

		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequestBytes)
	if !equal(r.PostFormValue("token"), string(s.operators.token)) {
		s.page.Login(w, r, http.StatusUnauthorized, "That is not the token.")

		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: s.operators.session(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: s.operators.public.Scheme == "https",
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
