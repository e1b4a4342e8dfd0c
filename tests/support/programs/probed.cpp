// A C++ program whose frames are the work of two threads: probed FRAMES. It reports them with the probe's header.
#include "edgetop_probe.h"

#include <cstdlib>
#include <thread>

static void work(const char *stage, uint32_t frame, bool is_call) {
    int64_t start = edgetop_now();
    usleep(1000);
    if (is_call)
        edgetop_put_frame(stage, start, edgetop_now(), 1, frame);
    else
        edgetop_stage(stage, start, edgetop_now(), frame);
}

int main(int, char **argv) {
    edgetop_deadline(1000000000);
    for (uint32_t frame = 1; frame <= static_cast<uint32_t>(std::atoi(argv[1])); frame++) {
        work("capture", frame, false);
        std::thread(work, "detector", frame, true).join();
    }
    edgetop_drop();
    edgetop_put("alone", edgetop_now() - 1000000, edgetop_now(), 0);
}
