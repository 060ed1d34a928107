#include "opencv.hpp"

#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/dnn.hpp>

struct pf_net {
  cv::dnn::Net net;
  std::vector<cv::String> outputs;
  std::vector<cv::Mat> results;
};

namespace {

// guarded runs f and turns an exception into a message.
template <typename F>
char *guarded(F f) {
  try {
    f();
    return nullptr;
  } catch (const std::exception &e) {
    return strdup(e.what());
  } catch (...) {
    return strdup("unknown exception");
  }
}

}  // namespace

char *pf_load(const char *path, pf_net **out) {
  return guarded([&] {
    // OpenCV prints to stderr what it throws as well.
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    std::unique_ptr<pf_net> n(new pf_net);
    n->net = cv::dnn::readNetFromONNX(path);
    if (n->net.empty()) throw std::runtime_error("the network is empty");
    n->net.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
    n->net.setPreferableTarget(cv::dnn::DNN_TARGET_CPU);
    *out = n.release();
  });
}

char *pf_set(pf_net *net, const char *name, const float *data, const int32_t *shape, int dims) {
  return guarded([&] {
    std::vector<int> sizes(shape, shape + dims);
    cv::Mat blob(sizes, CV_32F, const_cast<float *>(data));
    net->net.setInput(blob, name);
  });
}

char *pf_output(pf_net *net, const char *name) {
  return guarded([&] { net->outputs.push_back(name); });
}

char *pf_run(pf_net *net) {
  return guarded([&] { net->net.forward(net->results, net->outputs); });
}

const float *pf_result(pf_net *net, int i, int32_t *shape, int *dims) {
  *dims = -1;
  if (i < 0 || static_cast<size_t>(i) >= net->results.size()) return nullptr;
  const cv::Mat &m = net->results[i];
  if (m.type() != CV_32F || !m.isContinuous() || m.dims > 8) return nullptr;
  for (int d = 0; d < m.dims; d++) shape[d] = m.size[d];
  *dims = m.dims;
  return m.ptr<float>();
}

void pf_free(pf_net *net) { delete net; }

void pf_threads(int n) { cv::setNumThreads(n); }

const char *pf_version(void) { return CV_VERSION; }
