package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrBadRedisURL says that a Redis address can't be used. It never holds the address, which may hold a password.
var ErrBadRedisURL = errors.New("bad Redis URL")

const defaultPort = "6379"

// ParseRedisURL turns an address into options of go-redis:
//
//	redis://[user:password@]host[:port][/db]             one server; rediss:// is the same over TLS
//	redis://host:port,host:port,…                        nodes of a Redis Cluster; a single one with redis+cluster:// or rediss+cluster://
//	redis+sentinel://host:port,host:port/master[/db]     the master that the sentinels know under that name, over TLS with rediss+sentinel://
//
// User and password are for the servers that keep the data; the queries sentinel_username and sentinel_password are for the sentinels.
// With TLS these queries count, too:
//
//	tls_ca_file                   PEM file of the authorities to trust instead of the system's
//	tls_cert_file, tls_key_file   PEM files of the client's own certificate and key; read again at each connection
//	tls_server_name               the name in the servers' certificates, if it is not the host of the address
//	tls_skip_verify=true          takes any certificate; whoever is in between can read and change everything
func ParseRedisURL(s string) (*redis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(strings.TrimSpace(s), "://")
	if !found {
		return nil, fmt.Errorf("%w: no scheme (redis, rediss or redis+sentinel)", ErrBadRedisURL)
	}

	rest, query, _ := strings.Cut(rest, "?")

	rest = strings.ReplaceAll(rest, ","+scheme+"://", ",") // a list of whole addresses is a list, too

	// The host list is cut off by hand: net/url refuses more than one host.
	hosts, path, _ := strings.Cut(rest, "/")
	o := &redis.UniversalOptions{}

	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		if err := credentials(o, hosts[:at]); err != nil {
			return nil, err
		}

		hosts = hosts[at+1:]
	}

	if err := addresses(o, scheme, hosts); err != nil {
		return nil, err
	}

	return o, topology(o, scheme, strings.Trim(path, "/"), query)
}

func credentials(o *redis.UniversalOptions, userinfo string) error {
	user, password, hasPassword := strings.Cut(userinfo, ":")

	var err1, err2 error

	o.Username, err1 = url.PathUnescape(user)
	o.Password, err2 = url.PathUnescape(password)

	if err1 != nil || err2 != nil {
		return fmt.Errorf("%w: user or password is not percent-encoded", ErrBadRedisURL)
	}

	if !hasPassword {
		return fmt.Errorf("%w: a user without a password", ErrBadRedisURL)
	}

	return nil
}

func addresses(o *redis.UniversalOptions, scheme, hosts string) error {
	for host := range strings.SplitSeq(hosts, ",") {
		host = strings.TrimSpace(host)
		if host == "" {
			return fmt.Errorf("%w: no host", ErrBadRedisURL)
		}

		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), defaultPort
			if strings.HasSuffix(scheme, "+sentinel") {
				port = "26379"
			}
		}

		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%w: bad port", ErrBadRedisURL)
		}

		o.Addrs = append(o.Addrs, net.JoinHostPort(name, port))
	}

	return nil
}

// topology fills what depends on the scheme: TLS, database, master, cluster.
func topology(o *redis.UniversalOptions, scheme, path, query string) error {
	db := path

	if strings.HasPrefix(scheme, "rediss") {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	switch scheme {
	case "redis":
	case "rediss", "redis+cluster", "rediss+cluster":
	case "redis+sentinel", "rediss+sentinel":
		o.MasterName, db, _ = strings.Cut(path, "/")
		if o.MasterName == "" {
			return fmt.Errorf("%w: no master name after the sentinels", ErrBadRedisURL)
		}
	default:
		return fmt.Errorf("%w: unknown scheme (redis, rediss or redis+sentinel)", ErrBadRedisURL)
	}

	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: the database is not a number", ErrBadRedisURL)
		}

		o.DB = n
	}

	o.IsClusterMode = o.MasterName == "" && len(o.Addrs) > 1 || strings.HasSuffix(scheme, "+cluster")
	if o.IsClusterMode && o.DB != 0 {
		return fmt.Errorf("%w: a cluster has only database 0", ErrBadRedisURL)
	}

	return queries(o, query)
}

func queries(o *redis.UniversalOptions, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("%w: bad query", ErrBadRedisURL)
	}

	for name := range values {
		switch name {
		case "sentinel_username":
			o.SentinelUsername = values.Get(name)
		case "sentinel_password":
			o.SentinelPassword = values.Get(name)
		default:
			if !slices.Contains(tlsQueries, name) {
				return fmt.Errorf("%w: unknown query %q", ErrBadRedisURL, name)
			}
		}
	}

	return configureTLS(o, values)
}

// profile is what a client is for.
type profile struct {
	pool    int           // connections, 0 = the library's default
	timeout time.Duration // of dialling, of one read, of one write
	name    string        // CLIENT SETNAME of each connection, or ""
	onName  func(error)   // told once when Redis refuses the name
}

// newClient connects lazily. Retries are off: a command whose answer is lost may have been done, and only its caller knows whether it
// may be repeated.
func newClient(base redis.UniversalOptions, p profile) redis.UniversalClient {
	base.Protocol = 2
	base.DisableIdentity = true
	base.MaxRetries = -1
	base.ContextTimeoutEnabled = true
	base.DialTimeout = p.timeout
	base.DialerRetries = 1
	base.ReadTimeout = p.timeout
	base.WriteTimeout = p.timeout
	base.PoolSize = p.pool
	// A half-open connection costs one timeout to find out; few idle ones, few timeouts.
	base.MaxIdleConns = 4
	base.PipelinePoolSize = -1
	base.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	if p.name != "" {
		base.OnConnect = nameConnection(p, base.MasterName != "")
	}

	if base.IsClusterMode {
		return newClusterClient(base)
	}

	client := redis.NewUniversalClient(&base)
	client.AddHook(dialHook{})

	return client
}

// dialHook makes every failure to connect one that neverSent knows: sentinels that answer nothing and certificates that are refused have
// errors of their own.
type dialHook struct{}

// DialHook implements redis.Hook.
func (dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)

		return conn, asDial(err)
	}
}

// ProcessHook implements redis.Hook.
func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func asDial(err error) error {
	if err == nil || neverSent(err) {
		return err
	}

	return &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

// failoverClient is how the driver's connections to the master that sentinels name call themselves; those to the sentinels tell their address.
const failoverClient = "Redis<FailoverClient"

// nameConnection runs for each new connection, so that the name is there again after a reconnect. A server that forbids CLIENT costs
// visibility only.
func nameConnection(p profile, sentinels bool) func(context.Context, *redis.Conn) error {
	var once sync.Once

	return func(ctx context.Context, cn *redis.Conn) error {
		if sentinels && !strings.HasPrefix(cn.String(), failoverClient) {
			return nil // who asks a sentinel is no worker
		}

		err := cn.ClientSetName(ctx, p.name).Err()
		if err != nil && isReply(err) {
			once.Do(func() { p.onName(err) })

			return nil
		}

		return err
	}
}
