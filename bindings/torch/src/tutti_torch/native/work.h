// work.h - what calls under way are to PyTorch's C++.
#pragma once

#include "held.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

// The Work of _work.py; PyTorch's own C++ would not keep Python's half of it. Any thread, with the
// GIL or without.
class Work : public c10d::Work {
  public:
    // The caller has the GIL.
    Work(py::object work, c10d::OpType type) : c10d::Work(-1, type), work_(std::move(work))
    {
    }

    bool isCompleted() override
    {
        return work_.call_as<bool>("is_completed");
    }
    bool isSuccess() const override
    {
        return work_.call_as<bool>("is_success");
    }
    int sourceRank() const override
    {
        return work_.call_as<int>("source_rank");
    }
    std::vector<at::Tensor> result() override
    {
        return work_.call_as<std::vector<at::Tensor>>("result");
    }
    void synchronize() override
    {
        wait(kNoTimeout);
    }
    bool wait(std::chrono::milliseconds timeout) override
    {
        return work_.call_as<bool>("wait", timeout);
    }

    std::exception_ptr exception() const override
    {
        py::gil_scoped_acquire gil;
        if (python_exception().is_none()) return nullptr;
        try {
            work_.call("wait"); // it is done, so this does not block
        } catch (...) {
            return std::current_exception();
        }
        return nullptr;
    }

    // As Python wants it: an exception or None. The caller has the GIL.
    py::object python_exception() const
    {
        return work_.call("exception");
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        py::gil_scoped_acquire gil;
        // The header with the C++ half of Python's futures takes seconds to compile.
        auto module = py::module_::import("torch._C._distributed_c10d");
        py::object around = module.attr("_create_work_from_future")(work_.call("get_future"));
        return around.cast<c10::intrusive_ptr<c10d::Work>>()->getFuture();
    }

  private:
    Held work_;
};

// Of calls that were waited for.
class Done : public c10d::Work {
  public:
    explicit Done(c10d::OpType type) : c10d::Work(-1, type)
    {
        finish();
    }

    std::vector<at::Tensor> result() override
    {
        return {};
    }
    void synchronize() override
    {
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
        future->markCompleted(c10::List<at::Tensor>());
        return future;
    }
};
