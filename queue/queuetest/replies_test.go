package queuetest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// commands are sent in order to both servers; a tab separates arguments.
const commands = `
PING
SELECT	1
SET	s	v	PX	100000
SET	s	w	NX
SET	s	w	KEEPTTL
GET	s
INCR	n
PTTL	absent
PTTL	n
PEXPIRE	n	90000
PERSIST	n
TYPE	n
LPUSH	n	x
HSET	h	a	1	b	2
HMGET	h	a	absent	b
HINCRBY	h	a	41
HGET	h	absent
ZADD	z	900000000000	round	4096000000000000	large	7356637834240001	exact	1796054158250.0002	part	0.1	tenth	-3	below
ZADD	z	NX	5	round
ZSCORE	z	round
ZSCORE	z	absent
ZRANGE	z	0	-1	WITHSCORES
ZREVRANGE	z	0	2	WITHSCORES
ZRANGEBYSCORE	z	-inf	(900000000000	WITHSCORES	LIMIT	0	2
ZREVRANGEBYSCORE	z	+inf	-inf	WITHSCORES	LIMIT	0	1
ZINCRBY	z	100000000000	round
ZCOUNT	z	0	1000
ZPOPMIN	z
ZPOPMIN	empty
ZREMRANGEBYRANK	z	0	0
BZPOPMIN	z	1
BZPOPMIN	empty	0.001
RPUSH	l	a	b	c	b	a
LPOS	l	b
LPOS	l	absent
LREM	l	-1	a
LRANGE	l	-100	-2
RPOPLPUSH	l	m
RPOPLPUSH	absent	m
LTRIM	l	0	1
SADD	set	b	a	b
SPOP	absent
SISMEMBER	set	a
XADD	x	5-1	event	one
XADD	x	5-2	event	two	field	2
XADD	x	5-2	event	again
XADD	x	NOMKSTREAM	MAXLEN	1	6-1	event	three
XRANGE	x	-	+
XREVRANGE	x	+	-	COUNT	1
XREAD	COUNT	5	BLOCK	10	STREAMS	x	0
XREAD	COUNT	5	BLOCK	1	STREAMS	x	$
XREAD	BLOCK	1	STREAMS	absent	0
XLEN	x
XTRIM	x	MAXLEN	0
RENAME	absent	other
EXISTS	l	m	absent
SCRIPT	EXISTS	0000000000000000000000000000000000000000
EVALSHA	0000000000000000000000000000000000000000	0
EVAL	return {1, 2.9, -2.9, 'x', true, false, 'behind a nil'}	0
EVAL	return {KEYS[1], ARGV[1], #ARGV}	1	key	arg	more
EVAL	return {ok = 'FINE'}	0
EVAL	return redis.error_reply('MINE of words')	0
EVAL	return redis.status_reply('WELL')	0
EVAL	return redis.call('ZADD', 'z', 123456789012345678, 'huge', 900000000000, 'round', 0.5, 'half')	0
EVAL	return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')	0
EVAL	return redis.call('SET', 'number', 4503599627370497)	0
EVAL	return {redis.call('GET', 'number'), redis.call('GET', 'absent') == false, redis.call('HGETALL', 'absent')}	0
EVAL	return redis.pcall('LPUSH', 'z', 1)['err'] ~= nil	0
EVAL	return tostring(redis.call('TIME')[1] + 0 > 900000000)	0
EVAL	return {tostring(1796054158250), 1796054158250 .. '', string.format('%.0f', 7356637834240001), tostring(0.1), tostring(-0.5)}	0
EVAL	return {math.floor(7356637834240001 / 4096), 7 % 4, -7 % 4, 2^31}	0
EVAL	return cjson.encode({a = 1})	0
EVAL	return cjson.encode({1, 2, 'x', false})	0
EVAL	return {cjson.decode('{"a":[1,{"b":null}]}').a[2].b == cjson.null, cjson.decode('[1.5]')[1] * 2, cjson.encode(cjson.decode('[]'))}	0
EVAL	return pcall(cjson.decode, 'no json') and 1 or 0	0
EVAL	return cmsgpack.pack({'', 'a', {'b', {}}, 7, string.rep('x', 31), string.rep('x', 32), string.rep('x', 255), string.rep('x', 256)})	0
EVAL	local t = {} for i = 1, 16 do t[i] = string.rep('y', 65535 + i % 2) end return redis.sha1hex(cmsgpack.pack(t))	0
EVAL	local t = {} for i = 1, 65536 do t[i] = i % 128 end return redis.sha1hex(cmsgpack.pack(t))	0
EVAL	local t = {} for i = 1, 6000 do t[i] = i end return redis.call('RPUSH', 'many', unpack(t))	0
EVAL	return {string.match('bull:q:id', '^(.*:)([^:]*)$')}	0
EVAL	return redis.sha1hex('text')	0
CLIENT	SETNAME	bad name
CLIENT	SETNAME	bull:cQ==:w:w1
CLIENT	GETNAME
`

// TestReplies compares the answers to single commands.
func TestReplies(t *testing.T) {
	t.Parallel()

	truth := replies(t, redistest.Start(t).Client())

	synctest.Test(t, func(t *testing.T) {
		if diff := cmp.Diff(truth, replies(t, queuetest.New(t).Client())); diff != "" {
			t.Errorf("redis-server (-) and queuetest (+) differ:\n%s", diff)
		}
	})
}

func replies(t *testing.T, c *redis.Client) (all []string) {
	t.Helper()

	conn := c.Conn()
	defer conn.Close()

	for line := range strings.SplitSeq(strings.TrimSpace(commands), "\n") {
		var args []any
		for arg := range strings.SplitSeq(line, "\t") {
			args = append(args, arg)
		}

		reply, err := conn.Do(t.Context(), args...).Result()
		if err != nil {
			reply = "error " + err.Error()
		}

		all = append(all, fmt.Sprintf("%s: %q", line, reply))
	}

	return all
}
