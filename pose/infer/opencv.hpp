// A C face of OpenCV's DNN module. Unlike gocv's it catches exceptions, so that a model which OpenCV refuses is an
// error and not the end of the process, and it hands out results without allocating per run.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pf_net pf_net;

// Each function that can fail returns a message to be freed with free(), or NULL.

// pf_load reads an ONNX file.
char *pf_load(const char *path, pf_net **out);
// pf_set may keep data: it must stay valid until pf_run returned.
char *pf_set(pf_net *net, const char *name, const float *data, const int32_t *shape, int dims);
// pf_output adds an output to those that pf_run computes.
char *pf_output(pf_net *net, const char *name);
char *pf_run(pf_net *net);
// pf_result returns output i of the last run and its shape; shape has room for 8 sizes. dims is -1 on a result that
// is not a continuous block of float32.
const float *pf_result(pf_net *net, int i, int32_t *shape, int *dims);
void pf_free(pf_net *net);
// pf_version is the version of OpenCV; it is not to be freed.
const char *pf_version(void);
// pf_threads sets the number of threads of all of OpenCV.
void pf_threads(int n);

#ifdef __cplusplus
}
#endif
