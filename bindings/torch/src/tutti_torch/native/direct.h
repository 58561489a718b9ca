// direct.h - blocking calls of the library that are made without Python: those of one dense tensor.
//
// They are most of what programs wait for. Each function returns false, and has done nothing, where
// TuttiGroup has to look at the call: other tensors, dtypes and operations, mistakes, a group that
// is closed. The calls are those that TuttiGroup makes (_issue), so ranks of both kinds meet.
// Functions are called without the GIL; they throw Python's error when a call fails.
#pragma once

#include "held.h"

#include <tutti/tutti.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <utility>

class Direct {
  public:
    using Timeout = std::chrono::milliseconds;

    // The caller has the GIL. `path`: of the library that Python has loaded.
    Direct(py::object group, const std::string &path)
        : group_(group), state_(group.attr("_state")), library_(path)
    {
    }

    bool allreduce(const at::Tensor &tensor, const c10d::ReduceOp &reduce_op, Timeout timeout) const
    {
        auto dtype = dtype_of(tensor);
        auto op = op_of(reduce_op);
        if (!dtype || !op) return false;
        void *place = tensor.data_ptr();
        return call(library_.allreduce, timeout, place, place, count_of(tensor), *dtype, *op);
    }

    bool reduce(const at::Tensor &tensor, const c10d::ReduceOp &reduce_op, int root, bool is_root,
                Timeout timeout) const
    {
        auto dtype = dtype_of(tensor);
        auto op = op_of(reduce_op);
        if (!dtype || !op) return false;
        void *place = tensor.data_ptr();
        return call(library_.reduce, timeout, place, is_root ? place : nullptr, count_of(tensor),
                    *dtype, *op, root);
    }

    bool broadcast(const at::Tensor &tensor, int root, Timeout timeout) const
    {
        auto dtype = dtype_of(tensor);
        if (!dtype) return false;
        void *place = tensor.data_ptr();
        return call(library_.broadcast, timeout, place, place, count_of(tensor), *dtype, root);
    }

    bool allgather(const at::Tensor &output, const at::Tensor &input, int rank_count,
                   Timeout timeout) const
    {
        auto dtype = dtype_of(input);
        if (!dtype || dtype != dtype_of(output) || output.numel() != input.numel() * rank_count)
            return false;
        return call(library_.allgather, timeout, input.data_ptr(), output.data_ptr(),
                    count_of(input), *dtype);
    }

    bool reduce_scatter(const at::Tensor &output, const at::Tensor &input, int rank_count,
                        const c10d::ReduceOp &reduce_op, Timeout timeout) const
    {
        auto dtype = dtype_of(output);
        auto op = op_of(reduce_op);
        if (!dtype || !op || dtype != dtype_of(input) ||
            input.numel() != output.numel() * rank_count)
            return false;
        return call(library_.reduce_scatter, timeout, input.data_ptr(), output.data_ptr(),
                    count_of(output), *dtype, *op);
    }

    bool barrier(Timeout timeout) const
    {
        return call(library_.barrier, timeout);
    }

    // How many have been made here.
    uint64_t call_count() const
    {
        return call_count_;
    }

  private:
    // Its functions; they stay loaded, by Python.
    struct Library {
        decltype(&tutti_group_begin) group_begin;
        decltype(&tutti_group_end) group_end;
        decltype(&tutti_allreduce_with) allreduce;
        decltype(&tutti_reduce_with) reduce;
        decltype(&tutti_broadcast_with) broadcast;
        decltype(&tutti_allgather_with) allgather;
        decltype(&tutti_reduce_scatter_with) reduce_scatter;
        decltype(&tutti_barrier_with) barrier;

        explicit Library(const std::string &path)
        {
            void *file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
            TORCH_CHECK(file != nullptr, "tutti: ", dlerror());
            find(file, "tutti_group_begin", group_begin);
            find(file, "tutti_group_end", group_end);
            find(file, "tutti_allreduce_with", allreduce);
            find(file, "tutti_reduce_with", reduce);
            find(file, "tutti_broadcast_with", broadcast);
            find(file, "tutti_allgather_with", allgather);
            find(file, "tutti_reduce_scatter_with", reduce_scatter);
            find(file, "tutti_barrier_with", barrier);
            dlclose(file); // one of its users less
        }

        template <typename Function>
        static void find(void *file, const char *name, Function &function)
        {
            function = reinterpret_cast<Function>(dlsym(file, name));
            TORCH_CHECK(function != nullptr, "tutti: the library has no function ", name);
        }
    };

    // Only of tensors that are one dense piece of memory.
    static std::optional<tutti_dtype> dtype_of(const at::Tensor &tensor)
    {
        bool is_dense = tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous();
        if (!is_dense || tensor.is_neg()) return std::nullopt;
        switch (tensor.scalar_type()) {
        case at::kFloat: return TUTTI_FLOAT32;
        case at::kDouble: return TUTTI_FLOAT64;
        case at::kHalf: return TUTTI_FLOAT16;
        case at::kBFloat16: return TUTTI_BFLOAT16;
        case at::kChar: return TUTTI_INT8;
        case at::kShort: return TUTTI_INT16;
        case at::kInt: return TUTTI_INT32;
        case at::kLong: return TUTTI_INT64;
        case at::kByte: return TUTTI_UINT8;
        default: return std::nullopt;
        }
    }

    static std::optional<tutti_op> op_of(const c10d::ReduceOp &reduce_op)
    {
        switch (reduce_op.op_) {
        case c10d::ReduceOp::SUM: return TUTTI_SUM;
        case c10d::ReduceOp::AVG: return TUTTI_AVG;
        case c10d::ReduceOp::PRODUCT: return TUTTI_PROD;
        case c10d::ReduceOp::MIN: return TUTTI_MIN;
        case c10d::ReduceOp::MAX: return TUTTI_MAX;
        default: return std::nullopt;
        }
    }

    static size_t count_of(const at::Tensor &tensor)
    {
        return static_cast<size_t>(tensor.numel());
    }

    // Nobody frees the communicator while its list has an entry (State in tutti/_calls.py). Made and
    // ended with the GIL.
    class Inside {
      public:
        explicit Inside(py::list list) : list_(std::move(list))
        {
            list_.append(py::none());
        }
        ~Inside()
        {
            Py_ssize_t last = PyList_GET_SIZE(list_.ptr()) - 1;
            PyList_SetSlice(list_.ptr(), last, last + 1, nullptr);
        }

        Inside(const Inside &) = delete;
        Inside &operator=(const Inside &) = delete;

      private:
        py::list list_;
    };

    // Calls within a group of the library, as TuttiGroup does; throws Python's error when it fails.
    template <typename Function, typename... Arguments>
    bool call(Function function, Timeout timeout, Arguments... arguments) const
    {
        py::gil_scoped_acquire gil;
        py::object handle = state_.get().attr("handle");
        if (handle.is_none()) return false;
        auto *comm = static_cast<tutti_comm *>(PyLong_AsVoidPtr(handle.ptr()));
        tutti_call_options own = TUTTI_CALL_OPTIONS_INIT;
        const tutti_call_options *how = &own;
        if (timeout > Timeout(0)) {
            own.timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(timeout).count());
        } else {
            py::object usual = group_.get().attr("_default_options");
            how = usual.is_none() ? nullptr
                                  : static_cast<tutti_call_options *>(PyLong_AsVoidPtr(usual.ptr()));
        }
        Inside until_it_is_over(state_.get().attr("inside"));
        if (state_.get().attr("is_shut").cast<bool>()) return false;
        ++call_count_;
        tutti_status status;
        {
            py::gil_scoped_release others_run;
            status = library_.group_begin();
            if (status == TUTTI_OK) {
                status = function(arguments..., how, comm);
                tutti_status ended = library_.group_end();
                if (status == TUTTI_OK) status = ended;
            }
        }
        if (status != TUTTI_OK) group_.call("raise_error_of", static_cast<int>(status));
        return true;
    }

    Held group_;
    Held state_;
    Library library_;
    mutable std::atomic<uint64_t> call_count_{0};
};
