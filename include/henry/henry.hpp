/* henry/henry.hpp: henry.h for C++17: RAII objects, containers, errors as exceptions or as results. Header only. It needs
 * only the C API, whose headers say what each call does.
 *
 *     henry::Module module = henry::compile("model.pt2").load();
 *     std::vector<float> x(64);
 *     std::vector<henry::Tensor> y = module.run({henry::Tensor::view(x, {1, 1, 8, 8})});
 *     std::vector<float> probabilities = y[0].to_vector<float>();
 *
 * Errors: a function that can fail is declared as Ret<T>. By default that is T, and an error is thrown as henry::Error. If exceptions
 * are off (-fno-exceptions), or if HENRY_EXPECTED is defined as 1 before the first include, it is Result<T>, which holds a T or an
 * Error. Files of one program may choose differently: the two forms have separate namespaces.
 *
 * Handles (Tensor, Module) are counted references: a copy is another reference to the same object. A default-constructed handle is
 * empty. Threads: as the C functions; use one handle in one thread at a time, and copies of it in others.
 *
 * Callbacks must not throw. */
#ifndef HENRY_HENRY_HPP
#define HENRY_HENRY_HPP

#include "henry/henry.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#ifndef HENRY_EXPECTED
#if defined(__cpp_exceptions)
#define HENRY_EXPECTED 0
#else
#define HENRY_EXPECTED 1
#endif
#endif

namespace henry {

#if HENRY_EXPECTED
inline namespace expected_style {
#else
inline namespace throwing_style {
#endif

/* ---- errors ---- */

/* An error: a code, a message and the place in Henry's source. */
class Error : public std::exception {
public:
    Error(hn_code code, std::string message) : code_(code), message_(std::move(message)) {}

    /* Takes over an error of the C API. */
    static Error take(hn_status status) {
        int line = 0;
        const char *file = hn_status_where(status, &line);
        Error error(hn_status_code(status), hn_status_message(status));
        error.where_ = std::string(file) + ":" + std::to_string(line);
        hn_status_free(status);
        return error;
    }

    hn_code code() const noexcept { return code_; }
    const char *code_name() const noexcept { return hn_code_name(code_); }
    const char *what() const noexcept override { return message_.c_str(); }
    const std::string &message() const noexcept { return message_; }
    const std::string &where() const noexcept { return where_; }

private:
    hn_code code_;
    std::string message_, where_;
};

/* A value or an error. Reading the value of an error, or the error of a value, ends the program; but value() throws the error if
 * exceptions are on. */
template <class T>
class [[nodiscard]] Result {
public:
    Result(T held) : state_(std::in_place_index<0>, std::move(held)) {}
    Result(Error held) : state_(std::in_place_index<1>, std::move(held)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    T &operator*() & { return *get(); }
    const T &operator*() const & { return *const_cast<Result *>(this)->get(); }
    T &&operator*() && { return std::move(*get()); }
    T *operator->() { return get(); }
    const T *operator->() const { return const_cast<Result *>(this)->get(); }
    T &value() & { return *checked(); }
    T &&value() && { return std::move(*checked()); }
    const Error &error() const {
        const Error *held = std::get_if<1>(&state_);
        if (!held) std::abort();
        return *held;
    }

private:
    T *get() {
        T *held = std::get_if<0>(&state_);
        if (!held) std::abort();
        return held;
    }
    T *checked() {
#if defined(__cpp_exceptions)
        if (!has_value()) throw error();
#endif
        return get();
    }
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error held) : error_(std::move(held)) {}

    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    void value() const {
        if (!error_) return;
#if defined(__cpp_exceptions)
        throw *error_;
#else
        std::abort();
#endif
    }
    const Error &error() const {
        if (!error_) std::abort();
        return *error_;
    }

private:
    std::optional<Error> error_;
};

namespace detail {

#if HENRY_EXPECTED
template <class T>
struct RetOf {
    using type = Result<T>;
};
inline Result<void> ret(hn_status status) {
    if (status) return Error::take(status);
    return {};
}
template <class T>
Result<T> ret(hn_status status, T value) {
    if (status) return Error::take(status);
    return Result<T>(std::move(value));
}
#else
template <class T>
struct RetOf {
    using type = T;
};
inline void ret(hn_status status) {
    if (status) throw Error::take(status);
}
template <class T>
T ret(hn_status status, T value) {
    if (status) throw Error::take(status);
    return value;
}
#endif

/* Tensors of a call in the form of the C API; small numbers of them need no allocation. */
class Pointers {
public:
    explicit Pointers(size_t count) : count_(count), many_(count > few_.size() ? count : 0) {}
    hn_tensor **data() noexcept { return many_.empty() ? few_.data() : many_.data(); }
    uint32_t count() const noexcept { return static_cast<uint32_t>(count_); }

private:
    size_t count_;
    std::array<hn_tensor *, 8> few_{};
    std::vector<hn_tensor *> many_;
};

} // namespace detail

/* The return type of functions that can fail: T, or Result<T>. */
template <class T>
using Ret = typename detail::RetOf<T>::type;

/* ---- spans: borrowed elements, like std::span of C++20, which converts to it ---- */

template <class T>
class Span {
    using Element = std::remove_const_t<T>;
    template <class C>
    using DataOf = decltype(std::declval<C &>().data());

public:
    constexpr Span() = default;
    constexpr Span(T *data, size_t size) : data_(data), size_(size) {}
    template <size_t N>
    constexpr Span(T (&array)[N]) : data_(array), size_(N) {}
    /* Anything with data() and size(): std::vector, std::array, std::span. */
    template <class C, class = std::enable_if_t<std::is_convertible_v<DataOf<C>, T *> && !std::is_same_v<std::decay_t<C>, Span>>,
              class = decltype(std::declval<C &>().size())>
    constexpr Span(C &&container) : data_(container.data()), size_(container.size()) {}
    /* For arguments of a call: the list lives as long as the call. */
    template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
    constexpr Span(std::initializer_list<Element> list) : size_(list.size()) {
        data_ = list.begin();
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](size_t index) const { return data_[index]; }

private:
    T *data_ = nullptr;
    size_t size_ = 0;
};

using Shape = Span<const int64_t>;

/* ---- element types ---- */

/* The two bytes of a half or a bfloat16, which C++17 lacks. */
struct Half {
    uint16_t bits;
};
struct BFloat16 {
    uint16_t bits;
};

namespace detail {

template <class T>
constexpr hn_scalar_type scalar_type() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, bool>) return HN_BOOL;
    else if constexpr (std::is_same_v<U, double>) return HN_F64;
    else if constexpr (std::is_same_v<U, float>) return HN_F32;
    else if constexpr (std::is_same_v<U, Half>) return HN_F16;
    else if constexpr (std::is_same_v<U, BFloat16>) return HN_BF16;
    else if constexpr (std::is_integral_v<U> && sizeof(U) == 1) return std::is_signed_v<U> ? HN_I8 : HN_U8;
    else if constexpr (std::is_integral_v<U> && std::is_signed_v<U> && sizeof(U) == 2) return HN_I16;
    else if constexpr (std::is_integral_v<U> && std::is_signed_v<U> && sizeof(U) == 4) return HN_I32;
    else if constexpr (std::is_integral_v<U> && std::is_signed_v<U> && sizeof(U) == 8) return HN_I64;
    else return HN_NO_TYPE;
}

} // namespace detail

/* The element type of a C++ type: scalar_type_of<float> is HN_F32. */
template <class T>
constexpr hn_scalar_type scalar_type_of = detail::scalar_type<T>();

/* ---- tensors ---- */

class Tensor {
    template <class C>
    using ElementOf = std::remove_pointer_t<decltype(std::declval<C &>().data())>;

public:
    Tensor() = default;
    Tensor(const Tensor &other) noexcept : handle_(hn_tensor_retain(other.handle_)) {}
    Tensor(Tensor &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Tensor &operator=(Tensor other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Tensor() { hn_tensor_release(handle_); }

    /* New memory, 64-byte aligned, not zeroed. */
    static Ret<Tensor> make(hn_scalar_type type, Shape shape) { return create(type, shape, {}, nullptr, nullptr, nullptr); }
    template <class T>
    static Ret<Tensor> make(Shape shape) {
        return make(checked_type<T>(), shape);
    }
    /* A tensor of rank 0. */
    template <class T>
    static Ret<Tensor> scalar(T value) {
        return copy(Span<const T>(&value, 1), Shape());
    }

    /* Borrows memory, which must outlive the tensor and the runs that use it. A run only reads const data. `strides`, in elements: empty
     * means row-major contiguous. */
    template <class T>
    static Ret<Tensor> view(T *data, Shape shape, Shape strides = {}) {
        return create(checked_type<T>(), shape, strides, data, nullptr, nullptr);
    }
    /* Borrows the elements of a container (std::vector, std::array, std::span), as one dimension or in the form of `shape`, whose
     * sizes must multiply to the number of elements. */
    template <class C, class T = ElementOf<C>>
    static Ret<Tensor> view(C &container) {
        const int64_t size = static_cast<int64_t>(container.size());
        return view<T>(container.data(), Shape(&size, 1));
    }
    template <class C, class T = ElementOf<C>>
    static Ret<Tensor> view(C &container, Shape shape) {
        if (hn_status status = check_count(shape, container.size())) return detail::ret(status, Tensor());
        return view<T>(container.data(), shape);
    }
    /* A view of a temporary would dangle: use take or copy. */
    template <class C, class = std::enable_if_t<!std::is_lvalue_reference_v<C>>, class = ElementOf<C>>
    static Ret<Tensor> view(const C &&container, Shape shape = {}) = delete;

    /* Takes over a container: the tensor owns it. */
    template <class C, class T = ElementOf<C>>
    static Ret<Tensor> take(C container, Shape shape) {
        if (hn_status status = check_count(shape, container.size())) return detail::ret(status, Tensor());
        auto kept = std::make_unique<C>(std::move(container));
        hn_tensor *made = nullptr;
        hn_status status = create_status(checked_type<T>(), shape, {}, kept->data(), [](void *old) { delete static_cast<C *>(old); }, kept.get(), &made);
        if (!status) (void)kept.release();
        return detail::ret(status, Tensor(made));
    }
    /* Copies row-major elements into new memory. */
    template <class T>
    static Ret<Tensor> copy(Span<const T> elements, Shape shape) {
        hn_tensor *made = nullptr;
        hn_status status = check_count(shape, elements.size());
        if (!status) status = create_status(checked_type<T>(), shape, {}, static_cast<void *>(nullptr), nullptr, nullptr, &made);
        Tensor tensor(made);
        if (!status) status = hn_tensor_copy_in(made, elements.data());
        return detail::ret(status, std::move(tensor));
    }
    template <class C, class T = std::remove_const_t<ElementOf<C>>>
    static Ret<Tensor> copy(const C &container, Shape shape) {
        return copy(Span<const T>(container.data(), container.size()), shape);
    }

    /* Takes over a tensor of DLPack: see hn_tensor_from_dlpack. After an error it is still the caller's. */
    static Ret<Tensor> from_dlpack(::DLManagedTensor *managed) {
        hn_tensor *made = nullptr;
        hn_status status = hn_tensor_from_dlpack(managed, &made);
        return detail::ret(status, Tensor(made));
    }
    static Ret<Tensor> from_dlpack(::DLManagedTensorVersioned *managed) {
        hn_tensor *made = nullptr;
        hn_status status = hn_tensor_from_dlpack_versioned(managed, &made);
        return detail::ret(status, Tensor(made));
    }
    /* For other libraries; the caller passes it on, or calls its deleter. */
    Ret<::DLManagedTensorVersioned *> to_dlpack() const {
        ::DLManagedTensorVersioned *managed = nullptr;
        hn_status status = hn_tensor_to_dlpack_versioned(handle_, &managed);
        return detail::ret(status, managed);
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    hn_scalar_type type() const noexcept { return hn_tensor_type(handle_); }
    size_t rank() const noexcept { return hn_tensor_rank(handle_); }
    Shape shape() const noexcept { return Shape(hn_tensor_sizes(handle_), rank()); }
    Shape strides() const noexcept { return Shape(hn_tensor_strides(handle_), rank()); }
    int64_t numel() const noexcept { return hn_tensor_numel(handle_); }
    bool is_const() const noexcept { return hn_tensor_is_const(handle_); }
    hn_device device() const noexcept { return hn_tensor_device(handle_); }
    /* The address of element 0, which the CPU can read if device() is the CPU; nullptr if T is not the element type, or if T is not
     * const and the memory is read-only. */
    template <class T>
    T *data() const noexcept {
        static_assert(scalar_type_of<T> != HN_NO_TYPE, "no element type of Henry corresponds to this type");
        if (type() != scalar_type_of<T> || (is_const() && !std::is_const_v<T>)) return nullptr;
        return static_cast<T *>(hn_tensor_data(handle_));
    }
    /* The elements in row-major order. Bools are returned as unsigned char, since std::vector<bool> is packed. */
    template <class T>
    Ret<std::vector<T>> to_vector() const {
        static_assert(!std::is_same_v<T, bool>, "use to_vector<unsigned char>()");
        bool fits = type() == checked_type<T>() || (type() == HN_BOOL && std::is_same_v<T, unsigned char>);
        std::vector<T> elements(fits ? static_cast<size_t>(numel()) : 0);
        hn_status status = fits ? hn_tensor_copy_out(handle_, elements.data())
                                : HN_ERROR(HN_INVALID_ARGUMENT, "the tensor has elements of type %s, not %s", hn_scalar_type_name(type()),
                                           hn_scalar_type_name(scalar_type_of<T>));
        return detail::ret(status, std::move(elements));
    }
    /* Fills the tensor from row-major elements. */
    template <class T>
    Ret<void> copy_in(Span<const T> elements) {
        hn_status status = type() == checked_type<T>() ? check_count(shape(), elements.size())
                                                       : HN_ERROR(HN_INVALID_ARGUMENT, "the tensor has elements of type %s, not %s",
                                                                  hn_scalar_type_name(type()), hn_scalar_type_name(scalar_type_of<T>));
        if (!status) status = hn_tensor_copy_in(handle_, elements.data());
        return detail::ret(status);
    }
    template <class C, class T = std::remove_const_t<ElementOf<C>>>
    Ret<void> copy_in(const C &container) {
        return copy_in(Span<const T>(container.data(), container.size()));
    }

    /* For calls of the C API: borrowed; handed out; taken over; shared. */
    hn_tensor *get() const noexcept { return handle_; }
    hn_tensor *release() noexcept { return std::exchange(handle_, nullptr); }
    static Tensor adopt(hn_tensor *handle) noexcept { return Tensor(handle); }
    static Tensor share(hn_tensor *handle) noexcept { return Tensor(hn_tensor_retain(handle)); }

private:
    explicit Tensor(hn_tensor *handle) noexcept : handle_(handle) {}

    template <class T>
    static constexpr hn_scalar_type checked_type() {
        static_assert(scalar_type_of<T> != HN_NO_TYPE, "no element type of Henry corresponds to this type");
        return scalar_type_of<T>;
    }

    static hn_status check_count(Shape shape, size_t count) {
        uint64_t wanted = 1;
        for (int64_t size : shape)
            if (size < 0 || __builtin_mul_overflow(wanted, static_cast<uint64_t>(size), &wanted))
                return HN_ERROR(HN_INVALID_ARGUMENT, "the shape has a negative size, or more elements than fit into memory");
        if (wanted == count) return nullptr;
        return HN_ERROR(HN_INVALID_ARGUMENT, "the shape has %llu elements, but there are %llu", static_cast<unsigned long long>(wanted),
                        static_cast<unsigned long long>(count));
    }

    template <class T>
    static hn_status create_status(hn_scalar_type type, Shape shape, Shape strides, T *data, void (*free_data)(void *), void *free_user,
                                   hn_tensor **out) {
        hn_tensor_desc desc = {};
        if (!strides.empty() && strides.size() != shape.size())
            return HN_ERROR(HN_INVALID_ARGUMENT, "there are %u sizes and %u strides", static_cast<unsigned>(shape.size()),
                            static_cast<unsigned>(strides.size()));
        desc.type = type;
        desc.rank = static_cast<uint32_t>(shape.size());
        desc.sizes = shape.data();
        desc.strides = strides.data();
        desc.free_data = free_data;
        desc.free_user = free_user;
        if constexpr (std::is_const_v<T>) return hn_tensor_create_const(&desc, data, out);
        else desc.data = data;
        return hn_tensor_create(&desc, out);
    }

    template <class T>
    static Ret<Tensor> create(hn_scalar_type type, Shape shape, Shape strides, T *data, void (*free_data)(void *), void *free_user) {
        hn_tensor *made = nullptr;
        hn_status status = create_status(type, shape, strides, data, free_data, free_user, &made);
        return detail::ret(status, Tensor(made));
    }
    static Ret<Tensor> create(hn_scalar_type type, Shape shape, Shape strides, std::nullptr_t, std::nullptr_t, std::nullptr_t) {
        return create(type, shape, strides, static_cast<void *>(nullptr), nullptr, nullptr);
    }

    hn_tensor *handle_ = nullptr;
};

/* ---- options: the structs of the C API, initialized with defaults; their strings are borrowed for the call ---- */

struct ModuleOptions : hn_module_options {
    ModuleOptions() : hn_module_options{} {}
};

struct RunOptions : hn_run_options {
    RunOptions() : hn_run_options{} {}
};

struct CompileOptions : hn_compile_options {
    CompileOptions() : hn_compile_options{} {}

    /* Calls `callback(const hn_scope_progress &)` while compilers run; return false to cancel. Borrowed. */
    template <class F>
    CompileOptions &on_progress(F &callback) {
        progress_context = &callback;
        progress = [](void *context, const hn_scope_progress *now) noexcept -> bool { return (*static_cast<F *>(context))(*now); };
        return *this;
    }
};

/* Asks runs to stop; RunOptions::cancel takes get(). */
class Cancel {
public:
    static Ret<Cancel> make() {
        hn_cancel *made = nullptr;
        hn_status status = hn_cancel_create(&made);
        return detail::ret(status, Cancel(made));
    }
    void set() noexcept { hn_cancel_set(handle_.get()); }
    void reset() noexcept { hn_cancel_reset(handle_.get()); }
    bool is_set() const noexcept { return hn_cancel_is_set(handle_.get()); }
    hn_cancel *get() const noexcept { return handle_.get(); }

private:
    explicit Cancel(hn_cancel *handle) noexcept : handle_(handle) {}
    struct Destroy {
        void operator()(hn_cancel *handle) const noexcept { hn_cancel_destroy(handle); }
    };
    std::unique_ptr<hn_cancel, Destroy> handle_;
};

/* The buffers that a program changes, one set of them for each sequence; RunOptions::state takes get(). */
class State {
public:
    State() = default;

    /* Another state with the current content. */
    Ret<State> copy() const {
        hn_state *made = nullptr;
        hn_status status = hn_state_copy(handle_.get(), &made);
        return detail::ret(status, adopt(made));
    }
    Ret<void> reset() const { return detail::ret(hn_state_reset(handle_.get())); }
    Ret<Tensor> read(const std::string &name) const {
        hn_tensor *made = nullptr;
        hn_status status = hn_state_read(handle_.get(), name.c_str(), &made);
        return detail::ret(status, Tensor::adopt(made));
    }
    Ret<void> write(const std::string &name, const Tensor &tensor) const {
        return detail::ret(hn_state_write(handle_.get(), name.c_str(), tensor.get()));
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    hn_state *get() const noexcept { return handle_.get(); }
    static State adopt(hn_state *handle) noexcept {
        State state;
        state.handle_.reset(handle);
        return state;
    }

private:
    struct Destroy {
        void operator()(hn_state *handle) const noexcept { hn_state_destroy(handle); }
    };
    std::unique_ptr<hn_state, Destroy> handle_;
};

/* ---- modules ---- */

/* An input or output of a module; valid as long as the module. */
struct ValueInfo : hn_module_value_info {
    Span<const hn_module_dim> dims() const noexcept { return {sizes, rank}; }
};

/* A tensor, with the name of its input or weight. */
struct NamedTensor {
    std::string_view name;
    Tensor tensor;
};

/* A run that Module::begin has given to the device. Inputs must not change before `end`, which is called by the same thread. A
 * Run that is dropped waits and forgets its outputs. */
class Run {
public:
    /* Waits, and gives the outputs; once. */
    Ret<std::vector<Tensor>> end() {
        std::vector<Tensor> outputs;
        if (!parts_)
            return detail::ret(HN_ERROR(HN_INVALID_ARGUMENT, "the run has ended before"), std::move(outputs));
        hn_status status = hn_run_end(std::exchange(parts_->handle, nullptr));
        if (!status)
            for (size_t k = 0; k < parts_->count; k++) outputs.push_back(Tensor::adopt(std::exchange(parts_->out.data()[k], nullptr)));
        parts_.reset();
        return detail::ret(status, std::move(outputs));
    }

private:
    friend class Module;
    /* At one address: the run writes to the list. */
    struct Parts {
        explicit Parts(size_t outputs) : out(outputs), count(outputs) {}
        Parts(const Parts &) = delete;
        Parts &operator=(const Parts &) = delete;
        ~Parts() {
            hn_status_free(hn_run_end(handle));
            for (size_t k = 0; k < count; k++) hn_tensor_release(out.data()[k]);
        }
        detail::Pointers out;
        size_t count;
        hn_run *handle = nullptr;
    };
    explicit Run(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}
    std::unique_ptr<Parts> parts_;
};

class Module {
public:
    Module() = default;
    Module(const Module &other) noexcept : handle_(hn_module_retain(other.handle_)) {}
    Module(Module &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Module &operator=(Module other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Module() { hn_module_release(handle_); }

    static Ret<Module> load(const std::string &path, const ModuleOptions &options = {}) {
        hn_module *made = nullptr;
        hn_status status = hn_module_load_file(path.c_str(), &options, &made);
        return detail::ret(status, Module(made));
    }
    /* `borrow`: the bytes must outlive the module, see hn_module_load_memory. */
    static Ret<Module> load_memory(const void *bytes, size_t len, bool borrow = false, const ModuleOptions &options = {}) {
        hn_module *made = nullptr;
        hn_status status = hn_module_load_memory(bytes, len, borrow, &options, &made);
        return detail::ret(status, Module(made));
    }

    /* Runs the module on inputs in the order of its signature; an empty Tensor stands for a recorded scalar. The outputs are new. */
    Ret<std::vector<Tensor>> run(Span<const Tensor> inputs, const RunOptions &options = {}) const {
        std::vector<Tensor> outputs(output_count());
        hn_status status = run_status(inputs, outputs, options);
        return detail::ret(status, std::move(outputs));
    }
    /* The same. Tensors in `outputs` receive the results; empty ones become new tensors. */
    Ret<void> run_into(Span<const Tensor> inputs, Span<Tensor> outputs, const RunOptions &options = {}) const {
        return detail::ret(run_status(inputs, outputs, options));
    }
    /* Runs the module on inputs by name, in any order. Recorded scalars may be omitted. */
    Ret<std::vector<Tensor>> run_named(Span<const NamedTensor> inputs, const RunOptions &options = {}) const {
        std::vector<Tensor> ordered(input_count()), outputs(output_count());
        hn_status status = order(inputs, ordered);
        if (!status) status = run_status(ordered, outputs, options);
        return detail::ret(status, std::move(outputs));
    }
    /* Gives a run to the device: see hn_run_begin. */
    Ret<Run> begin(Span<const Tensor> inputs, const RunOptions &options = {}) const {
        auto parts = std::make_unique<Run::Parts>(output_count());
        detail::Pointers in(inputs.size());
        for (size_t k = 0; k < inputs.size(); k++) in.data()[k] = inputs[k].get();
        hn_status status = hn_run_begin(handle_, &options, in.data(), in.count(), parts->out.data(), parts->out.count(), &parts->handle);
        return detail::ret(status, Run(std::move(parts)));
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    size_t input_count() const noexcept { return hn_module_input_count(handle_); }
    size_t output_count() const noexcept { return hn_module_output_count(handle_); }
    Ret<std::vector<ValueInfo>> inputs() const { return list<ValueInfo>(hn_module_input_count, hn_module_input_info); }
    Ret<std::vector<ValueInfo>> outputs() const { return list<ValueInfo>(hn_module_output_count, hn_module_output_info); }
    /* The index of the input or output with this name. */
    Ret<size_t> find_input(const std::string &name) const { return find(hn_module_input_find, name); }
    Ret<size_t> find_output(const std::string &name) const { return find(hn_module_output_find, name); }

    /* Sizes that can differ between runs, and the guards that every run checks. */
    Ret<std::vector<hn_module_symbol_info>> symbols() const {
        return list<hn_module_symbol_info>(hn_module_symbol_count, hn_module_symbol_info_get);
    }
    Ret<std::vector<hn_module_guard_info>> guards() const { return list<hn_module_guard_info>(hn_module_guard_count, hn_module_guard_info_get); }
    /* The sizes of the outputs for inputs of these shapes; -1 for data-dependent sizes. */
    Ret<std::vector<std::vector<int64_t>>> output_shapes(Span<const Shape> inputs) const {
        std::vector<hn_input_sizes> in(inputs.size());
        std::vector<hn_output_sizes> out(output_count());
        for (size_t k = 0; k < inputs.size(); k++) {
            in[k].rank = static_cast<uint32_t>(inputs[k].size());
            in[k].sizes = inputs[k].data();
        }
        hn_status status = hn_module_output_sizes(handle_, in.data(), static_cast<uint32_t>(in.size()), out.data(), static_cast<uint32_t>(out.size()));
        std::vector<std::vector<int64_t>> shapes;
        for (const hn_output_sizes &sizes : out) shapes.emplace_back(sizes.sizes, sizes.sizes + (status ? 0 : sizes.rank));
        return detail::ret(status, std::move(shapes));
    }

    /* The inputs and buffers that a run changes: see hn_module_mutation_info. */
    Ret<std::vector<hn_module_mutation_info>> mutations() const {
        return list<hn_module_mutation_info>(hn_module_mutation_count, hn_module_mutation_info_get);
    }
    /* A new state, for example for a sequence, with the initial values of the buffers from the weights. */
    Ret<State> make_state() const {
        hn_state *made = nullptr;
        hn_status status = hn_state_create(handle_, &made);
        return detail::ret(status, State::adopt(made));
    }
    /* Read or write a buffer that runs change, in the module's own state. Both copy. */
    Ret<Tensor> read_buffer(const std::string &name) const {
        hn_tensor *made = nullptr;
        hn_status status = hn_module_buffer_read(handle_, name.c_str(), &made);
        return detail::ret(status, Tensor::adopt(made));
    }
    Ret<void> write_buffer(const std::string &name, const Tensor &tensor) const {
        return detail::ret(hn_module_buffer_write(handle_, name.c_str(), tensor.get()));
    }
    Ret<void> reset_buffers() const { return detail::ret(hn_state_reset(hn_module_state(handle_))); }

    Ret<std::vector<hn_module_weight_info>> weights() const { return list<hn_module_weight_info>(hn_module_weight_count, hn_module_weight_info_get); }
    /* Replaces weights by name, all at once; `borrow`: the module uses the tensors' memory, see hn_module_weights_replace. */
    Ret<void> replace_weights(Span<const NamedTensor> weights, bool borrow = false) const {
        std::vector<std::string> names;
        std::vector<hn_named_tensor> given;
        for (const NamedTensor &weight : weights) names.emplace_back(weight.name);
        for (size_t k = 0; k < weights.size(); k++) given.push_back({names[k].c_str(), weights[k].tensor.get()});
        return detail::ret(hn_module_weights_replace(handle_, given.data(), static_cast<uint32_t>(given.size()), borrow));
    }

    hn_module_stats stats() const noexcept {
        hn_module_stats stats = {};
        hn_module_stats_get(handle_, &stats);
        return stats;
    }
    /* Time spent in each step, for modules that were loaded with `profile`. */
    Ret<std::vector<hn_module_step_profile>> profile() const { return list<hn_module_step_profile>(hn_module_step_count, hn_module_profile); }

    hn_module *get() const noexcept { return handle_; }
    hn_module *release() noexcept { return std::exchange(handle_, nullptr); }
    static Module adopt(hn_module *handle) noexcept { return Module(handle); }

private:
    explicit Module(hn_module *handle) noexcept : handle_(handle) {}

    hn_status run_status(Span<const Tensor> inputs, Span<Tensor> outputs, const RunOptions &options) const {
        detail::Pointers in(inputs.size()), out(outputs.size());
        for (size_t k = 0; k < inputs.size(); k++) in.data()[k] = inputs[k].get();
        for (size_t k = 0; k < outputs.size(); k++) out.data()[k] = outputs[k].get();
        hn_status status = hn_module_run_with(handle_, &options, in.data(), in.count(), out.data(), out.count());
        if (status) return status;
        for (size_t k = 0; k < outputs.size(); k++)
            if (!outputs[k]) outputs[k] = Tensor::adopt(out.data()[k]);
        return nullptr;
    }

    hn_status order(Span<const NamedTensor> given, std::vector<Tensor> &ordered) const {
        for (const NamedTensor &input : given) {
            uint32_t index = 0;
            hn_status status = hn_module_input_find(handle_, std::string(input.name).c_str(), &index);
            if (status) return status;
            if (ordered[index])
                return HN_ERROR(HN_INVALID_ARGUMENT, "input '%.*s' is given twice", static_cast<int>(input.name.size()), input.name.data());
            ordered[index] = input.tensor;
        }
        return nullptr;
    }

    template <class Info, class M, class Base>
    Ret<std::vector<Info>> list(uint32_t (*count_of)(const hn_module *), hn_status (*get_info)(M *, uint32_t, Base *)) const {
        std::vector<Info> infos(count_of(handle_));
        hn_status status = nullptr;
        for (uint32_t k = 0; k < infos.size() && !status; k++) status = get_info(handle_, k, &infos[k]);
        return detail::ret(status, std::move(infos));
    }

    Ret<size_t> find(hn_status (*find_index)(const hn_module *, const char *, uint32_t *), const std::string &name) const {
        uint32_t index = 0;
        hn_status status = find_index(handle_, name.c_str(), &index);
        return detail::ret(status, static_cast<size_t>(index));
    }

    hn_module *handle_ = nullptr;
};

/* ---- compiling; needs libhenry ---- */

class Compiled {
public:
    Compiled() = default;

    Ret<Module> load(const ModuleOptions &options = {}) const {
        hn_module *made = nullptr;
        hn_status status = hn_compiled_load(handle_.get(), &options, &made);
        return detail::ret(status, Module::adopt(made));
    }
    /* Writes the bundle. */
    Ret<void> save(const std::string &path) const { return detail::ret(hn_compiled_save(handle_.get(), path.c_str())); }
    /* The bytes of the bundle; borrowed. */
    Span<const std::byte> image() const noexcept {
        size_t len = 0;
        const void *bytes = hn_compiled_image(handle_.get(), &len);
        return {static_cast<const std::byte *>(bytes), len};
    }
    hn_compile_stats stats() const noexcept {
        hn_compile_stats stats = {};
        hn_compiled_stats_get(handle_.get(), &stats);
        return stats;
    }
    hn_metrics metrics() const noexcept {
        hn_metrics metrics = {};
        hn_compiled_metrics_get(handle_.get(), &metrics);
        return metrics;
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    hn_compiled *get() const noexcept { return handle_.get(); }
    static Compiled adopt(hn_compiled *handle) noexcept {
        Compiled compiled;
        compiled.handle_.reset(handle);
        return compiled;
    }

private:
    struct Release {
        void operator()(hn_compiled *handle) const noexcept { hn_compiled_release(handle); }
    };
    std::unique_ptr<hn_compiled, Release> handle_;
};

/* Compiles a .pt2 file. */
inline Ret<Compiled> compile(const std::string &path, const CompileOptions &options = {}) {
    hn_compiled *made = nullptr;
    hn_status status = hn_compile_file(path.c_str(), &options, &made);
    return detail::ret(status, Compiled::adopt(made));
}

/* Compiles the bytes of a .pt2 file, which are read during the call. */
inline Ret<Compiled> compile_memory(const void *bytes, size_t len, const CompileOptions &options = {}) {
    hn_compiled *made = nullptr;
    hn_status status = hn_compile_memory(bytes, len, &options, &made);
    return detail::ret(status, Compiled::adopt(made));
}

/* ---- bundles, messages, versions ---- */

inline Ret<void> verify_bundle(const std::string &path, bool weights = true) { return detail::ret(hn_bundle_verify_file(path.c_str(), weights)); }

inline Ret<std::string> describe_bundle(const std::string &path, hn_bundle_format format = HN_BUNDLE_TEXT) {
    char *text = nullptr;
    size_t len = 0;
    hn_status status = hn_bundle_describe_file(path.c_str(), format, &text, &len);
    std::string copy = text ? std::string(text, len) : std::string();
    hn_bundle_text_free(text);
    return detail::ret(status, std::move(copy));
}

/* Passes Henry's messages to `callback(const hn_log_line &)`. It is borrowed, may be called by several threads at the same time, and
 * must not throw. nullptr: removes the callback. */
template <class F>
Ret<void> set_log(F *callback) {
    return detail::ret(hn_log_sink_set([](void *context, const hn_log_line *line) noexcept { (*static_cast<F *>(context))(*line); }, callback));
}
inline Ret<void> set_log(std::nullptr_t) { return detail::ret(hn_log_sink_set(nullptr, nullptr)); }
inline Ret<void> set_log_levels(const std::string &levels) { return detail::ret(hn_log_levels_set(levels.c_str())); }

inline std::string_view version() noexcept { return hn_version_string(); }

} // inline namespace
} // namespace henry

#endif
