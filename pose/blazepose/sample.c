#include "sample.h"

#include <string.h>

// WIDE loops are compiled for wider registers too, where there are any; the bits are the same, as nothing is contracted.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

// spanned is part i of n that a line of samples is cut into, n being at most their number.
static pf_span spanned(int32_t i, int32_t n, int32_t samples)
{
	const int64_t from = (int64_t)i * samples * 256 / n, to = (int64_t)(i + 1) * samples * 256 / n;
	pf_span s = {.first = (int32_t)(from >> 8), .last = (int32_t)(to >> 8), .head = 256 - (from & 255), .tail = to & 255, .share = 1.0 / (double)(to - from)};
	if (s.tail == 0) // the last one is whole: count it as a part of 256
		s.last--, s.tail = 256;
	if (s.first == s.last)
		s.head = (uint32_t)(to - from), s.tail = 0;
	return s;
}

WIDE static void add_row(const uint8_t *row, int32_t step, int32_t n, uint16_t *sums)
{
	if (step == 1) {
		for (int32_t x = 0; x < n; x++)
			sums[x] += row[x];
		return;
	}
	for (int32_t x = 0; x < n; x++)
		sums[x] += row[(int64_t)x * step];
}

// add_ends adds the parts of the first and last row of a span to the sums of the whole ones.
WIDE static void add_ends(const uint8_t *first, const uint8_t *last, pf_span s, int32_t step, int32_t n, const uint16_t *sums, uint32_t *out)
{
	if (step == 1) {
		for (int32_t x = 0; x < n; x++)
			out[x] = ((uint32_t)sums[x] << 8) + (uint16_t)(s.head * first[x]) + (uint16_t)(s.tail * last[x]);
		return;
	}
	for (int32_t x = 0; x < n; x++)
		out[x] = ((uint32_t)sums[x] << 8) + s.head * first[(int64_t)x * step] + s.tail * last[(int64_t)x * step];
}

// mean_row writes a row of means of sums of columns.
static void mean_row(const uint32_t *columns, const pf_span *spans, int32_t width, double share, uint8_t *dst)
{
	for (int32_t x = 0; x < width; x++) {
		const pf_span s = spans[x];
		uint32_t whole = 0;
		for (int32_t i = s.first + 1; i < s.last; i++)
			whole += columns[i];
		const int64_t sum = (int64_t)whole * 256 + (int64_t)s.head * columns[s.first] + (int64_t)s.tail * columns[s.last];
		dst[x] = (uint8_t)((double)sum * (s.share * share) + 0.5);
	}
}

void pf_shrink(const uint8_t *src, pf_plane p, uint8_t *dst, int32_t width, int32_t height, pf_span *spans, uint16_t *sums, uint32_t *columns)
{
	for (int32_t x = 0; x < width; x++)
		spans[x] = spanned(x, width, p.width);
	for (int32_t y = 0; y < height; y++, dst += width) {
		const pf_span s = spanned(y, height, p.height);
		memset(sums, 0, sizeof *sums * p.width);
		for (int32_t i = s.first + 1; i < s.last; i++)
			add_row(src + (int64_t)i * p.stride, p.step, p.width, sums);
		add_ends(src + (int64_t)s.first * p.stride, src + (int64_t)s.last * p.stride, s, p.step, p.width, sums, columns);
		mean_row(columns, spans, width, s.share, dst);
	}
}

// Places are counted in parts of a sample.
enum { PARTS = 1 << 8 };

static inline int64_t bound(int64_t v, int64_t most) { return v < 0 ? 0 : v > most ? most : v; }

// whole is the next lower whole number; places far outside of a plane are all alike.
static inline int64_t whole(double v)
{
	const double far = 1ll << 40;
	v = v < -far ? -far : v > far ? far : v;
	const int64_t i = (int64_t)v;
	return i - (v < (double)i);
}

static inline float mix(uint32_t upper, uint32_t lower, uint32_t v)
{
	return (float)((PARTS - v) * upper + v * lower) * (1.0f / (PARTS * PARTS));
}

static inline float between(const uint8_t *a, const uint8_t *b, int64_t right, uint32_t u, uint32_t v)
{
	return mix((PARTS - u) * a[0] + u * a[right], (PARTS - u) * b[0] + u * b[right], v);
}

// A row is a row of a block: where its first pixel is in the plane, and how far it is from one to the next, in 1/65536 of a sample, so
// that steps add up exactly.
typedef struct {
	int64_t x, y, dx, dy;
} row;

enum { ONE = 1 << 16 };

// edge_row samples a row of which a part may be beyond the plane.
static void edge_row(const uint8_t *src, pf_plane p, row r, float *out, int32_t n)
{
	const int64_t right = p.width - 1, lowest = p.height - 1;
	for (int32_t i = 0; i < n; i++, r.x += r.dx, r.y += r.dy) {
		const int64_t x0 = bound(r.x >> 16, right), x1 = bound((r.x >> 16) + 1, right);
		const int64_t y0 = bound(r.y >> 16, lowest), y1 = bound((r.y >> 16) + 1, lowest);
		const uint8_t *at = src + x0 * p.step;
		out[i] = between(at + y0 * p.stride, at + y1 * p.stride, (x1 - x0) * p.step, (r.x >> 8) & (PARTS - 1), (r.y >> 8) & (PARTS - 1));
	}
}

// inner_row samples a row that lies in the plane, with a sample to the right and below of each place.
static void inner_row(const uint8_t *src, pf_plane p, row r, float *out, int32_t n)
{
	int32_t x = (int32_t)r.x, y = (int32_t)r.y;
	const int32_t dx = (int32_t)r.dx, dy = (int32_t)r.dy;
	for (int32_t i = 0; i < n; i++, x += dx, y += dy) {
		const uint8_t *at = src + (int64_t)(y >> 16) * p.stride + (int64_t)(x >> 16) * p.step;
		out[i] = between(at, at + p.stride, p.step, (x >> 8) & (PARTS - 1), (y >> 8) & (PARTS - 1));
	}
}

// two are two neighbours, each in a half of the number.
static inline uint32_t two(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 16; }

// dense_row is inner_row of a plane whose samples are neighbours: it computes two columns at a time.
static void dense_row(const uint8_t *src, int32_t stride, row r, float *out, int32_t n)
{
	int32_t x = (int32_t)r.x, y = (int32_t)r.y;
	const int32_t dx = (int32_t)r.dx, dy = (int32_t)r.dy;
	for (int32_t i = 0; i < n; i++, x += dx, y += dy) {
		const uint8_t *at = src + (int64_t)(y >> 16) * stride + (x >> 16);
		const uint32_t u = (x >> 8) & (PARTS - 1), v = (y >> 8) & (PARTS - 1);
		const uint32_t columns = (PARTS - v) * two(at) + v * two(at + stride);
		out[i] = mix(columns & 0xffff, columns >> 16, u);
	}
}

static int inside(int64_t v, int32_t samples) { return v >= 0 && v >> 16 < samples - 1; }

void pf_sample(const uint8_t *src, pf_plane p, const double *m, float *dst, int32_t width, int32_t height, int32_t stride)
{
	row r = {.dx = whole(m[0] * ONE + 0.5), .dy = whole(m[3] * ONE + 0.5)};
	for (int32_t j = 0; j < height; j++, dst += stride) {
		r.x = whole((m[1] * j + m[2]) * ONE + 0.5);
		r.y = whole((m[4] * j + m[5]) * ONE + 0.5);
		const int64_t x = r.x + r.dx * (width - 1), y = r.y + r.dy * (width - 1);
		if (!inside(r.x, p.width) || !inside(x, p.width) || !inside(r.y, p.height) || !inside(y, p.height))
			edge_row(src, p, r, dst, width);
		else if (p.step == 1)
			dense_row(src, p.stride, r, dst, width);
		else
			inner_row(src, p, r, dst, width);
	}
}

WIDE void pf_scale(float *dst, int32_t width, int32_t height, int32_t stride, float low, float gain)
{
	for (int32_t j = 0; j < height; j++, dst += stride)
		for (int32_t i = 0; i < width; i++)
			dst[i] = low + gain * dst[i];
}

static inline float level(float v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

WIDE void pf_colours(float *y, float *u, float *v, int32_t width, int32_t height, int32_t stride, const float *c, float low, float gain)
{
	for (int32_t j = 0; j < height; j++, y += stride, u += stride, v += stride)
		for (int32_t i = 0; i < width; i++) {
			const float light = (y[i] - c[0]) * c[1], first = u[i] - 128, second = v[i] - 128;
			y[i] = low + gain * level(light + c[2] * second);
			u[i] = low + gain * level(light - c[3] * first - c[4] * second);
			v[i] = low + gain * level(light + c[5] * first);
		}
}
