// held.h - a Python object in C++: its methods are called uncompiled, and any thread may let go of it.
#pragma once

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

// While it lives, torch.compile lets the Python of this thread alone. It would otherwise compile that
// as well, where a compiled program calls C++ that calls Python. Made and ended with the GIL.
class NotCompiled {
  public:
    // Once, before all others.
    static void init()
    {
        set_compiler = new py::object( // never freed: it outlives the interpreter
            py::module_::import("torch._C._dynamo.eval_frame").attr("set_eval_frame"));
    }

    NotCompiled() : before_((*set_compiler)(py::none()))
    {
    }
    ~NotCompiled()
    {
        if (!before_.is_none()) (*set_compiler)(before_);
    }

    NotCompiled(const NotCompiled &) = delete;
    NotCompiled &operator=(const NotCompiled &) = delete;

  private:
    static inline const py::object *set_compiler;

    py::object before_;
};

class Held {
  public:
    // The caller has the GIL.
    explicit Held(py::object object) : object_(std::move(object))
    {
    }

    // Any thread, with the GIL or without.
    ~Held()
    {
        if (!Py_IsInitialized()) {
            object_.release(); // the interpreter has gone, and the object with it
            return;
        }
        py::gil_scoped_acquire gil;
        object_ = py::object();
    }

    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;

    // The caller has the GIL.
    const py::object &get() const
    {
        return object_;
    }

    // Calls a method. The caller has the GIL.
    template <typename... Arguments>
    py::object call(const char *method, const Arguments &...arguments) const
    {
        NotCompiled now;
        return object_.attr(method)(arguments...);
    }

    // Calls a method, for what is no Python object. Any thread, with the GIL or without.
    template <typename Result, typename... Arguments>
    Result call_as(const char *method, const Arguments &...arguments) const
    {
        py::gil_scoped_acquire gil;
        return call(method, arguments...).template cast<Result>();
    }

  private:
    py::object object_;
};
