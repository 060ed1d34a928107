// What crops are made with: exact whole numbers and sums in a fixed order, so that the same picture gives the same bits everywhere.
#pragma once
#include <stdint.h>

// A plane is one channel of a picture: sample x of row y lies at y*stride + x*step.
typedef struct {
	int32_t width, height, stride, step;
} pf_plane;

// A span is a stretch of a line of samples: a part of the first one, all of those between, a part of the last one. Parts are in 1/256, share
// is one by all of them.
typedef struct {
	int32_t first, last;
	uint32_t head, tail;
	double share;
} pf_span;

// pf_shrink makes a plane smaller: each of the width×height bytes of dst is the mean of what it covers, at most 255 samples a side. The work
// buffers hold a span per sample of a row of dst, and a number per sample of a row of the plane.
void pf_shrink(const uint8_t *src, pf_plane p, uint8_t *dst, int32_t width, int32_t height, pf_span *spans, uint16_t *sums, uint32_t *columns);

// pf_sample writes a block of width×height values, 0 to 255, whose rows are stride values apart. Pixel (x, y) of the block is taken at
// (m[0]x + m[1]y + m[2], m[3]x + m[4]y + m[5]), interpolated between four samples. What lies beyond the plane repeats its edge.
void pf_sample(const uint8_t *src, pf_plane p, const double *m, float *dst, int32_t width, int32_t height, int32_t stride);

// pf_scale turns values 0 to 255 into the range of a model, low to low + 255*gain.
void pf_scale(float *dst, int32_t width, int32_t height, int32_t stride, float low, float gain);

// pf_colours turns brightness and two colour differences into red, green and blue of a model's range, in place. c holds the black level
// and the factor of brightness, then the parts of the second difference in red, of both in green, and of the first in blue.
void pf_colours(float *y, float *u, float *v, int32_t width, int32_t height, int32_t stride, const float *c, float low, float gain);
