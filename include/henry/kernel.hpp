/* henry/kernel.hpp: kernel.h for C++17: the compile service for kernels of your own. Errors and handles are as in henry/henry.hpp.
 *
 *     henry::Service service = henry::Service::make();
 *     henry::Scope scope = service.scope();
 *     henry::Future future = scope.submit({"twice", "c++", "extern \"C\" int twice(int x) { return 2 * x; }", {"twice"}});
 *     henry::Library library = future.wait().load();
 *     int four = library.function<int(int)>("twice")(2); */
#ifndef HENRY_KERNEL_HPP
#define HENRY_KERNEL_HPP

#include "henry/henry.hpp"
#include "henry/kernel.h"

namespace henry {

#if HENRY_EXPECTED
inline namespace expected_style {
#else
inline namespace throwing_style {
#endif

/* The fields of hn_source, with owned strings. */
struct Source {
    std::string name, language, text;
    std::vector<std::string> entries, flags, target, env;
};

/* Code that was loaded into this process; unloaded with the object. */
class Library {
public:
    Library() = default;

    /* The function `name`, of type T: function<double(const double *, int)>("sum"). Valid as long as the library is loaded. */
    template <class T>
    Ret<T *> function(const std::string &name) const {
        static_assert(std::is_function_v<T>, "name a function type, as in function<int(int)>(\"f\")");
        void *address = nullptr;
        T *found = nullptr;
        hn_status status = hn_library_symbol(handle_.get(), name.c_str(), &address);
        static_assert(sizeof found == sizeof address, "POSIX: addresses of functions and data have one size");
        std::memcpy(&found, &address, sizeof found);
        return detail::ret(status, found);
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    hn_library *get() const noexcept { return handle_.get(); }
    static Library adopt(hn_library *handle) noexcept {
        Library library;
        library.handle_.reset(handle);
        return library;
    }

private:
    struct Close {
        void operator()(hn_library *handle) const noexcept { hn_library_close(handle); }
    };
    std::unique_ptr<hn_library, Close> handle_;
};

/* Compiled code; a copy is another reference to it. */
class Artifact {
public:
    Artifact() = default;
    Artifact(const Artifact &other) noexcept : handle_(other.handle_ ? hn_artifact_retain(other.handle_) : nullptr) {}
    Artifact(Artifact &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Artifact &operator=(Artifact other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Artifact() { hn_artifact_release(handle_); }

    Ret<Library> load() const {
        hn_library *made = nullptr;
        hn_status status = hn_artifact_load(handle_, &made);
        return detail::ret(status, Library::adopt(made));
    }
    Span<const std::byte> bytes() const noexcept {
        size_t len = 0;
        const void *bytes = hn_artifact_bytes(handle_, &len);
        return {static_cast<const std::byte *>(bytes), len};
    }
    std::string_view key() const noexcept { return hn_artifact_key(handle_); }

    /* Device code. */
    size_t image_count() const noexcept { return hn_artifact_image_count(handle_); }
    Ret<hn_image> image(size_t index) const {
        hn_image image = {};
        hn_status status = hn_artifact_image(handle_, static_cast<uint32_t>(index), &image);
        return detail::ret(status, image);
    }
    Ret<hn_image> find_image(const std::string &arch) const {
        hn_image image = {};
        hn_status status = hn_artifact_image_find(handle_, arch.c_str(), &image);
        return detail::ret(status, image);
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    hn_artifact *get() const noexcept { return handle_; }
    static Artifact adopt(hn_artifact *handle) noexcept {
        Artifact artifact;
        artifact.handle_ = handle;
        return artifact;
    }

private:
    hn_artifact *handle_ = nullptr;
};

/* The future result of a job; it belongs to its scope and is valid as long as the scope. */
class Future {
public:
    Future() = default;
    explicit Future(hn_future *handle) noexcept : handle_(handle) {}

    /* Waits at most this long; less than 0: no limit. */
    Ret<Artifact> wait(int64_t timeout_ms = -1) const {
        hn_artifact *made = nullptr;
        hn_status status = hn_future_wait(handle_, timeout_ms, &made);
        return detail::ret(status, Artifact::adopt(made));
    }
    bool is_done() const noexcept { return hn_future_is_done(handle_); }
    void cancel() const noexcept { hn_future_cancel(handle_); }
    hn_hit_level hit_level() const noexcept { return hn_future_hit_level(handle_); }
    hn_future *get() const noexcept { return handle_; }

private:
    hn_future *handle_ = nullptr;
};

/* The futures of one piece of work. Destroy it before its service. */
class Scope {
public:
    Scope() = default;

    Ret<Future> submit(const Source &source) const {
        hn_future *made = nullptr;
        std::vector<const char *> entries = pointers(source.entries), flags = pointers(source.flags), target = pointers(source.target),
                                  env = pointers(source.env);
        hn_source plain = {};
        plain.name = source.name.c_str();
        plain.language = source.language.c_str();
        plain.text = source.text.c_str();
        plain.text_len = source.text.size();
        plain.entries = entries.data();
        plain.entry_count = entries.size();
        plain.flags = flags.data();
        plain.flag_count = flags.size();
        plain.target = target.data();
        plain.target_count = target.size();
        plain.env = env.data();
        plain.env_count = env.size();
        hn_status status = hn_compile_submit(handle_.get(), &plain, &made);
        return detail::ret(status, Future(made));
    }
    /* Waits for all futures. */
    Ret<void> wait() const { return detail::ret(hn_scope_wait(handle_.get(), nullptr, nullptr)); }
    /* The same, and calls `progress(const hn_scope_progress &)` meanwhile; false cancels the rest. */
    template <class F>
    Ret<void> wait(F &&progress) const {
        using Callback = std::remove_reference_t<F>;
        return detail::ret(hn_scope_wait(
            handle_.get(), [](void *context, const hn_scope_progress *now) noexcept -> bool { return (*static_cast<Callback *>(context))(*now); },
            &progress));
    }

    hn_scope *get() const noexcept { return handle_.get(); }
    static Scope adopt(hn_scope *handle) noexcept {
        Scope scope;
        scope.handle_.reset(handle);
        return scope;
    }

private:
    static std::vector<const char *> pointers(const std::vector<std::string> &strings) {
        std::vector<const char *> pointers;
        for (const std::string &string : strings) pointers.push_back(string.c_str());
        return pointers;
    }
    struct Destroy {
        void operator()(hn_scope *handle) const noexcept { hn_scope_destroy(handle); }
    };
    std::unique_ptr<hn_scope, Destroy> handle_;
};

struct ServiceOptions : hn_service_options {
    ServiceOptions() : hn_service_options{} {}
};

class Service {
public:
    Service() = default;

    static Ret<Service> make(const ServiceOptions &options = {}) {
        hn_service *made = nullptr;
        Service service;
        hn_status status = hn_service_create(&options, &made);
        service.handle_.reset(made);
        return detail::ret(status, std::move(service));
    }
    /* Starts the workers now. */
    Ret<void> warm() const { return detail::ret(hn_service_warm(handle_.get())); }
    Ret<Scope> scope() const {
        hn_scope *made = nullptr;
        hn_status status = hn_scope_create(handle_.get(), &made);
        return detail::ret(status, Scope::adopt(made));
    }
    hn_service_stats stats() const noexcept {
        hn_service_stats stats = {};
        hn_service_stats_get(handle_.get(), &stats);
        return stats;
    }
    hn_service *get() const noexcept { return handle_.get(); }

private:
    struct Destroy {
        void operator()(hn_service *handle) const noexcept { hn_service_destroy(handle); }
    };
    std::unique_ptr<hn_service, Destroy> handle_;
};

} // inline namespace
} // namespace henry

#endif
