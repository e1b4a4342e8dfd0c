/* A library with the functions and the layout of ncnn (src/net.h), which computes nothing; without -DLIBRARY, a program
 * that is linked with it: ncnn_shared MODEL OTHER. */
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace ncnn {
class Mat {
public:
    int w = 0;
};
class Extractor;
class Net {
public:
    virtual ~Net();
    int load_param(const char *path);
    int load_param_mem(const char *text);
    int load_model(const char *path);
    Extractor create_extractor() const;
    std::string path;
};
class ExtractorPrivate {
public:
    const Net *net;
    std::vector<Mat> mats;
};
class Extractor {
public:
    virtual ~Extractor();
    Extractor(const Extractor &other);
    void clear();
    int input(const char *name, const Mat &in);
    int extract(const char *name, Mat &feat, int type = 0);
    int input(int index, const Mat &in);
    int extract(int index, Mat &feat, int type = 0);
    Extractor(const Net *net);

private:
    ExtractorPrivate *const d;
};
} // namespace ncnn

#ifdef LIBRARY
namespace ncnn {
Net::~Net() {}
int Net::load_param(const char *given) {
    path = given;
    return 0;
}
int Net::load_param_mem(const char *) { return 0; }
int Net::load_model(const char *) { return 0; }
Extractor Net::create_extractor() const { return Extractor(this); }
Extractor::Extractor(const Net *net) : d(new ExtractorPrivate{net, std::vector<Mat>(4)}) {}
Extractor::Extractor(const Extractor &other) : d(new ExtractorPrivate(*other.d)) {}
Extractor::~Extractor() { delete d; }
void Extractor::clear() { d->mats.clear(); }
static int index_of(const char *name) { return name[0] == 'x' ? 0 : name[0] == 'y' ? 1 : name[0] == 'z' ? 2 : -1; }
int Extractor::input(const char *name, const Mat &in) { return input(index_of(name), in); }
int Extractor::extract(const char *name, Mat &feat, int type) { return extract(index_of(name), feat, type); }
int Extractor::input(int index, const Mat &in) {
    d->mats.at(index) = in;
    return 0;
}
int Extractor::extract(int index, Mat &feat, int) {
    if (index < 0)
        return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    feat = d->mats.at(index);
    return 0;
}
} // namespace ncnn
#else
static int failed = 0;

static void once(const ncnn::Net &net, bool both) {
    ncnn::Mat in, out;
    ncnn::Extractor extractor = net.create_extractor();
    failed |= extractor.input("x", in) | extractor.extract("y", out);
    if (both)
        failed |= extractor.extract(2, out);
}

int main(int, char **words) {
    ncnn::Net first, second, unnamed;
    failed |= first.load_param(words[1]) | first.load_model("weights");
    failed |= second.load_param(words[2]) | second.load_model("weights");
    failed |= unnamed.load_param_mem("text");
    for (int i = 0; i < 5; i++)
        once(first, true);
    for (int i = 0; i < 4; i++)
        once(second, false);
    std::thread one([&] { once(second, false), once(first, true); });
    one.join();
    for (int i = 0; i < 3; i++)
        once(unnamed, false);
    ncnn::Mat mat;
    ncnn::Extractor again = second.create_extractor();
    for (int i = 0; i < 2; i++)
        failed |= again.input(0, mat) | again.extract("z", mat);
    again.clear();
    ncnn::Extractor *failing = new ncnn::Extractor(second.create_extractor());
    failing->input("x", mat);
    printf("%d %d\n", failed, failing->extract("none", mat));
    delete failing;
    return failed ? 1 : 7;
}
#endif
