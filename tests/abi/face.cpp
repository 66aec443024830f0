// face.cpp: henry.hpp and kernel.hpp, as exceptions and as results: tests/abi/run.sh builds it both ways.
//
//     face MODEL.pt2 FOLDER
#include <henry/henry.hpp>
#include <henry/kernel.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

static int failures;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) failures++, std::printf("%s:%d: expected: %s\n", __FILE__, __LINE__, #condition);            \
    } while (0)

// `must` gives the value of a call that must work; `expect_error` the error of one that must not.
#if HENRY_EXPECTED
template <class T>
static T must(henry::Result<T> result) {
    if (!result) std::printf("unexpected: %s\n", result.error().what()), std::exit(1);
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}
#define EXPECT_ERROR(call, wanted, part)                                                                               \
    do {                                                                                                               \
        auto result_ = (call);                                                                                         \
        EXPECT(!result_);                                                                                              \
        if (!result_) EXPECT(result_.error().code() == (wanted) && result_.error().message().find(part) != std::string::npos); \
    } while (0)
#else
template <class T>
static T must(T value) {
    return value;
}
#define EXPECT_ERROR(call, wanted, part)                                                                               \
    do {                                                                                                               \
        bool thrown_ = false;                                                                                          \
        try {                                                                                                          \
            (void)(call);                                                                                              \
        } catch (const henry::Error &error) {                                                                          \
            thrown_ = error.code() == (wanted) && error.message().find(part) != std::string::npos;                     \
        }                                                                                                              \
        EXPECT(thrown_);                                                                                               \
    } while (0)
#endif

using henry::Tensor;

static void check_tensors() {
    static_assert(henry::scalar_type_of<long long> == HN_I64 && henry::scalar_type_of<long> == HN_I64 && henry::scalar_type_of<const float> == HN_F32);
    static_assert(henry::scalar_type_of<unsigned> == HN_NO_TYPE && henry::scalar_type_of<bool> == HN_BOOL);
    std::vector<float> six = {1, 2, 3, 4, 5, 6};
    const std::array<int64_t, 2> pair = {7, 8};
    Tensor view = must(Tensor::view(six, {2, 3}));
    EXPECT(view.rank() == 2 && view.numel() == 6 && view.shape()[1] == 3 && view.strides()[0] == 3 && view.type() == HN_F32);
    EXPECT(view.data<float>() == six.data() && view.data<double>() == nullptr && !view.is_const());
    Tensor constant = must(Tensor::view(pair));
    EXPECT(constant.is_const() && constant.data<int64_t>() == nullptr && constant.data<const int64_t>()[1] == 8);
    DLManagedTensorVersioned *lent = must(constant.to_dlpack());
    Tensor returned = must(Tensor::from_dlpack(lent)); // the deleter is called with it
    EXPECT(returned.is_const() && returned.data<const int64_t>() == pair.data() && returned.device().kind == HN_DEVICE_CPU);
    Tensor columns = must(Tensor::view(six.data(), {3, 2}, {1, 3})); // the transpose
    EXPECT((must(columns.to_vector<float>()) == std::vector<float>{1, 4, 2, 5, 3, 6}));
    Tensor taken;
    {
        std::vector<int> numbers = {1, 2, 3};
        taken = must(Tensor::take(std::move(numbers), {3}));
    }
    Tensor second = taken; // another reference
    taken = Tensor();
    EXPECT(!taken && second && second.data<int>()[2] == 3);
    Tensor copied = must(Tensor::copy(six, {3, 2}));
    six[0] = 100;
    EXPECT(must(copied.to_vector<float>())[0] == 1 && view.data<float>()[0] == 100);
    std::vector<float> other(6, 9);
#if HENRY_EXPECTED
    EXPECT(copied.copy_in(other).has_value());
#else
    copied.copy_in(other);
#endif
    EXPECT(copied.data<float>()[5] == 9);
    EXPECT(must(must(Tensor::scalar(2.5)).to_vector<double>())[0] == 2.5 && must(Tensor::scalar(true)).type() == HN_BOOL);
    EXPECT(must(must(Tensor::scalar(true)).to_vector<unsigned char>())[0] == 1);
    EXPECT(must(Tensor::make<double>({4, 0})).numel() == 0);
    EXPECT_ERROR(Tensor::view(six, {4, 2}), HN_INVALID_ARGUMENT, "the shape has 8 elements, but there are 6");
    EXPECT_ERROR(Tensor::view(six.data(), {2, 3}, {1}), HN_INVALID_ARGUMENT, "2 sizes and 1 strides");
    EXPECT_ERROR(Tensor::make(HN_F32, {-1}), HN_INVALID_ARGUMENT, "");
    EXPECT_ERROR(view.to_vector<int>(), HN_INVALID_ARGUMENT, "elements of type f32, not i32");
    EXPECT_ERROR(constant.copy_in(std::vector<int64_t>{1, 2}), HN_INVALID_ARGUMENT, "");
}

static bool near(const std::vector<float> &a, const std::vector<float> &b) { return a == b; }

// All weights that can be replaced become 0: then every digit is as likely as another.
static void check_weights(const henry::Module &module, std::vector<float> &images, const std::vector<float> &before) {
    std::vector<hn_module_weight_info> weights = must(module.weights());
    std::vector<henry::NamedTensor> zeros;
    for (const hn_module_weight_info &weight : weights) {
        if (!weight.is_used || weight.is_folded || weight.type != HN_F32) continue;
        zeros.push_back({weight.name, must(Tensor::copy(std::vector<float>(weight.bytes / sizeof(float)), henry::Shape(weight.sizes, weight.rank)))});
    }
    EXPECT(!zeros.empty());
#if HENRY_EXPECTED
    EXPECT(module.replace_weights(zeros).has_value());
#else
    module.replace_weights(zeros);
#endif
    std::vector<float> after = must(must(module.run({must(Tensor::view(images, {2, 1, 8, 8}))}))[0].to_vector<float>());
    EXPECT(!near(after, before) && after.size() == before.size());
    EXPECT_ERROR(module.replace_weights({{"no such weight", zeros[0].tensor}}), HN_NOT_FOUND, "no such weight");
}

static void check_module(const std::string &model, const std::string &folder) {
    int asked = 0;
    auto progress = [&](const hn_scope_progress &) { return ++asked > 0; };
    henry::CompileOptions options;
    options.embed_weights = true;
    henry::Compiled compiled = must(henry::compile(model, options.on_progress(progress)));
    EXPECT(compiled.stats().kernels_generated > 0 && !compiled.image().empty() && asked > 0);
#if HENRY_EXPECTED
    EXPECT(compiled.save(folder + "/m.hnb").has_value());
#else
    compiled.save(folder + "/m.hnb");
#endif
    henry::Module module = must(compiled.load()), again = must(henry::Module::load(folder + "/m.hnb"));
    henry::Module copy = module;
    module = henry::Module();

    std::vector<float> images(2 * 64);
    for (size_t k = 0; k < images.size(); k++) images[k] = static_cast<float>(k % 7) / 8;
    const std::vector<float> &read_only = images;
    std::vector<Tensor> outputs = must(copy.run({must(Tensor::view(read_only, {2, 1, 8, 8}))}));
    std::vector<float> probabilities = must(outputs[0].to_vector<float>());
    EXPECT(probabilities.size() == 20 && outputs[0].shape()[0] == 2);

    std::vector<henry::ValueInfo> inputs = must(copy.inputs());
    EXPECT(inputs.size() == 1 && inputs[0].dims().size() == 4 && inputs[0].dims()[3].value == 8 && must(copy.outputs()).size() == 1);
    std::string name = inputs[0].name;
    EXPECT(must(copy.find_input(name)) == 0);
    EXPECT(near(must(must(again.run_named({{name, must(Tensor::view(images, {2, 1, 8, 8}))}}))[0].to_vector<float>()), probabilities));
    EXPECT(must(copy.symbols()).size() == 1 && must(copy.output_shapes({{5, 1, 8, 8}}))[0][0] == 5);
    EXPECT(must(copy.mutations()).empty() && copy.stats().runs == 1);

    std::vector<float> own(20);
    std::vector<Tensor> given = {must(Tensor::view(own, {2, 10}))};
    henry::RunOptions one_thread;
    one_thread.threads = 1;
#if HENRY_EXPECTED
    EXPECT(copy.run_into({must(Tensor::view(images, {2, 1, 8, 8}))}, given, one_thread).has_value());
#else
    copy.run_into({must(Tensor::view(images, {2, 1, 8, 8}))}, given, one_thread);
#endif
    EXPECT(near(own, probabilities));

    henry::State state = must(copy.make_state()), sibling = must(state.copy());
    henry::RunOptions with_state;
    with_state.state = sibling.get();
    EXPECT(near(must(must(copy.run({must(Tensor::view(images, {2, 1, 8, 8}))}, with_state))[0].to_vector<float>()), probabilities));
    EXPECT_ERROR(state.read("no such buffer"), HN_NOT_FOUND, "no such buffer");
    EXPECT_ERROR(copy.write_buffer("no such buffer", given[0]), HN_NOT_FOUND, "no such buffer");
    check_weights(again, images, probabilities);

    Tensor wrong = must(Tensor::view(images, {2, 1, 4, 16}));
    EXPECT_ERROR(copy.run({wrong}), HN_INVALID_ARGUMENT, name);
    EXPECT_ERROR(copy.run_named({{"no such input", wrong}}), HN_NOT_FOUND, "no such input");
    EXPECT_ERROR(copy.run_named({{name, wrong}, {name, wrong}}), HN_INVALID_ARGUMENT, "is given twice");
    henry::Run begun = must(copy.begin({must(Tensor::view(images, {2, 1, 8, 8}))}));
    { henry::Run dropped = must(copy.begin({must(Tensor::view(images, {2, 1, 8, 8}))})); }
    EXPECT(near(must(must(begun.end())[0].to_vector<float>()), probabilities));
    EXPECT_ERROR(begun.end(), HN_INVALID_ARGUMENT, "has ended before");
    EXPECT_ERROR(copy.begin({wrong}), HN_INVALID_ARGUMENT, name);
    henry::Cancel cancel = must(henry::Cancel::make());
    henry::RunOptions cancelled;
    cancelled.cancel = cancel.get();
    cancel.set();
    EXPECT_ERROR(copy.run({must(Tensor::view(images, {2, 1, 8, 8}))}, cancelled), HN_CANCELLED, "");
    EXPECT_ERROR(henry::Module::load(model), HN_INVALID_ARGUMENT, "hn_compile_file");
    EXPECT_ERROR(henry::compile(folder + "/m.hnb"), HN_INVALID_ARGUMENT, "it is compiled already");
    EXPECT_ERROR(henry::compile("/no/such.pt2"), HN_NOT_FOUND, "/no/such.pt2");
    EXPECT(must(henry::describe_bundle(folder + "/m.hnb")).find(name) != std::string::npos);

    std::ifstream file(model, std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    henry::Module from_memory = must(must(henry::compile_memory(bytes.data(), bytes.size())).load());
    EXPECT(near(must(must(from_memory.run({must(Tensor::view(images, {2, 1, 8, 8}))}))[0].to_vector<float>()), probabilities));
}

static void check_kernels() {
    henry::Service service = must(henry::Service::make());
    henry::Scope scope = must(service.scope());
    henry::Future twice = must(scope.submit({"twice", "c", "int twice(int x) { return 2 * x; }", {"twice"}, {"-O2"}, {}, {}}));
    henry::Future broken = must(scope.submit({"broken", "c", "int broken(", {"broken"}, {}, {}, {}}));
    henry::Library library = must(must(twice.wait()).load());
    EXPECT(must(library.function<int(int)>("twice"))(21) == 42);
    EXPECT_ERROR(library.function<int(int)>("thrice"), HN_NOT_FOUND, "thrice");
    EXPECT_ERROR(broken.wait(), HN_TOOLCHAIN, "broken");
    uint32_t most = 0;
    EXPECT_ERROR(scope.wait([&](const hn_scope_progress &now) { return most = now.total, true; }), HN_TOOLCHAIN, "broken");
    EXPECT(service.stats().submitted == 2);
}

static void check_messages() {
    std::string heard;
    auto hear = [&](const hn_log_line &line) { heard += line.text; };
#if HENRY_EXPECTED
    EXPECT(henry::set_log(&hear).has_value());
    EXPECT(henry::set_log(nullptr).has_value());
#else
    henry::set_log(&hear);
    henry::set_log(nullptr);
#endif
    EXPECT_ERROR(henry::set_log_levels("lots"), HN_INVALID_ARGUMENT, "unknown log level 'lots'");
    EXPECT(henry::version() == HENRY_VERSION_STRING);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    check_tensors();
    check_module(argv[1], argv[2]);
    check_kernels();
    check_messages();
    std::printf("%d failures\n", failures);
    return failures != 0;
}
