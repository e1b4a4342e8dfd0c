/* openvino_calls MODEL OTHER: runs two models with OpenVINO's C++ API and with its C API. */
#include <atomic>
#include <chrono>
#include <iostream>
#include <openvino/c/openvino.h>
#include <openvino/openvino.hpp>
#include <thread>

static int with_c(const char *path) {
    ov_core_t *core;
    ov_compiled_model_t *compiled;
    ov_infer_request_t *request;
    int failed = ov_core_create(&core) || ov_core_compile_model_from_file(core, path, "CPU", 0, &compiled) ||
                 ov_compiled_model_create_infer_request(compiled, &request);
    for (int i = 0; i < 4 && !failed; i++)
        failed = ov_infer_request_infer(request);
    for (int i = 0; i < 3 && !failed; i++)
        failed = ov_infer_request_start_async(request) || ov_infer_request_wait(request);
    ov_infer_request_free(request);
    ov_compiled_model_free(compiled);
    ov_core_free(core);
    return failed;
}

int main(int, char **words) {
    ov::Core core;
    auto model = core.read_model(words[1]);
    int called = 0, errors = 0, raised = 0;
    { /* 10, and 5 in another thread by a request of its own */
        auto compiled = core.compile_model(model, "CPU");
        auto request = compiled.create_infer_request();
        for (int i = 0; i < 10; i++)
            request.infer();
        std::thread one([&] {
            auto own = compiled.create_infer_request();
            for (int i = 0; i < 5; i++)
                own.infer();
        });
        one.join();
        auto moved = std::move(request); /* 6 with a callback that has a state of its own */
        moved.set_callback([&called, &errors, own = std::string("of more than two words")](std::exception_ptr error) {
            called++;
            errors += error != nullptr || own.size() != 22;
        });
        for (int i = 0; i < 6; i++) {
            moved.start_async();
            moved.wait();
        }
    }
    auto second = core.compile_model(words[2]); /* 4 without a callback */
    auto other = second.create_infer_request();
    for (int i = 0; i < 4; i++) {
        other.start_async();
        while (!other.wait_for(std::chrono::milliseconds(1000))) {
        }
    }
    try {
        ov::InferRequest().infer(); /* of no model: no inference */
    } catch (const std::exception &) {
        raised++;
    }
    /* 1 that its callback holds, and 1 that fails meanwhile. If the callback is called before the second begins, the
       second waits for it instead of failing, and the program ends with 99. */
    std::atomic<bool> go{false};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    other.set_callback([&](std::exception_ptr) {
        while (!go && std::chrono::steady_clock::now() < until)
            std::this_thread::yield();
    });
    other.start_async();
    try {
        other.infer();
        return 99;
    } catch (const std::exception &) {
        raised++;
    }
    go = true;
    other.wait();
    other.infer(); /* 1 */
    std::cout << called << ' ' << errors << ' ' << raised << ' ' << with_c(words[2]) << std::endl; /* 7 */
    return 7;
}
