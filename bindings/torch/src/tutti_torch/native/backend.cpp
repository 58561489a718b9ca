// backend.cpp - the backend as PyTorch's own are: a c10d::Backend, reached through the dispatcher.
//
//   dist.all_reduce ──► ProcessGroup ──► dispatcher ──► Backend ─┬─► Direct ──► library
//                                                                └─► TuttiGroup ──► library
//
// The dispatcher is where the profiler, the compiler and tensors without data come in. Direct makes
// blocking calls of one dense tensor; TuttiGroup (_group.py) does everything. Where this cannot be
// compiled the TuttiGroup is the process group itself. Both ways issue the same calls of the library,
// so ranks of both kinds can meet.
//
// Invariants
//   1. Python's objects are touched with the GIL only, and let go of with it, whichever thread has
//      the last reference.
//   2. Python's errors pass through C++ as they are: the caller gets the same object.
//   3. A range of the profiler begins with its call and ends with its operation.
//
// _native.py compiles this, once for each version of PyTorch and of Python.

#include "direct.h"
#include "held.h"
#include "range.h"
#include "work.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class Backend : public c10d::Backend {
  public:
    // `library`: the path of what Python has loaded. The caller has the GIL.
    Backend(const py::object &group, int rank, int size, const std::string &library)
        : c10d::Backend(rank, size), library_(library), group_(group), direct_(group, library)
    {
        init();
    }

    // ---------------------------------------------------------------------------- collectives

    WorkPointer allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override
    {
        Range range("tutti:all_reduce", tensors);
        if (may_be_direct(options) && tensors.size() == 1 &&
            direct_.allreduce(tensors[0], options.reduceOp, options.timeout))
            return done(OpType::ALLREDUCE);
        return start(range, OpType::ALLREDUCE, "allreduce", tensors, options);
    }

    WorkPointer allreduce_coalesced(Tensors &tensors,
                                    const c10d::AllreduceCoalescedOptions &options) override
    {
        Range range("tutti:all_reduce_coalesced", tensors);
        return start(range, OpType::ALLREDUCE_COALESCED, "allreduce_coalesced", tensors, options);
    }

    WorkPointer reduce(Tensors &tensors, const c10d::ReduceOptions &options) override
    {
        Range range("tutti:reduce", tensors);
        int root = static_cast<int>(options.rootRank);
        if (may_be_direct(options) && tensors.size() == 1 &&
            direct_.reduce(tensors[0], options.reduceOp, root, root == rank_, options.timeout))
            return done(OpType::REDUCE);
        return start(range, OpType::REDUCE, "reduce", tensors, options);
    }

    WorkPointer broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override
    {
        Range range("tutti:broadcast", tensors);
        int root = static_cast<int>(options.rootRank);
        if (may_be_direct(options) && tensors.size() == 1 &&
            direct_.broadcast(tensors[0], root, options.timeout))
            return done(OpType::BROADCAST);
        return start(range, OpType::BROADCAST, "broadcast", tensors, options);
    }

    WorkPointer gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options) override
    {
        Range range("tutti:gather", inputs);
        return start(range, OpType::GATHER, "gather", outputs, inputs, options);
    }

    WorkPointer scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options) override
    {
        Range range("tutti:scatter", first_of(inputs));
        return start(range, OpType::SCATTER, "scatter", outputs, inputs, options);
    }

    WorkPointer allgather(Lists &outputs, Tensors &inputs,
                          const c10d::AllgatherOptions &options) override
    {
        Range range("tutti:all_gather", inputs);
        return start(range, OpType::ALLGATHER, "allgather", outputs, inputs, options);
    }

    WorkPointer allgather_coalesced(Lists &outputs, Tensors &inputs,
                                    const c10d::AllgatherOptions &options) override
    {
        Range range("tutti:all_gather_coalesced", inputs);
        return start(range, OpType::ALLGATHER_COALESCED, "allgather_coalesced", outputs, inputs,
                     options);
    }

    WorkPointer _allgather_base(at::Tensor &output, at::Tensor &input,
                                const c10d::AllgatherOptions &options) override
    {
        Range range("tutti:all_gather_single", input);
        if (may_be_direct(options) && direct_.allgather(output, input, size_, options.timeout))
            return done(OpType::_ALLGATHER_BASE);
        return start(range, OpType::_ALLGATHER_BASE, "all_gather_single", output, input, options);
    }

    WorkPointer allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::AllgatherOptions &options) override
    {
        Range range("tutti:all_gather_single_coalesced", inputs);
        return start(range, OpType::COALESCED, "all_gather_single_coalesced", outputs, inputs,
                     options);
    }

    WorkPointer reduce_scatter(Tensors &outputs, Lists &inputs,
                               const c10d::ReduceScatterOptions &options) override
    {
        Range range("tutti:reduce_scatter", first_of(inputs));
        return start(range, OpType::REDUCE_SCATTER, "reduce_scatter", outputs, inputs, options);
    }

    WorkPointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                     const c10d::ReduceScatterOptions &options) override
    {
        Range range("tutti:reduce_scatter_single", input);
        if (may_be_direct(options) &&
            direct_.reduce_scatter(output, input, size_, options.reduceOp, options.timeout))
            return done(OpType::_REDUCE_SCATTER_BASE);
        return start(range, OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_single", output, input,
                     options);
    }

    WorkPointer reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::ReduceScatterOptions &options) override
    {
        Range range("tutti:reduce_scatter_single_coalesced", inputs);
        return start(range, OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                     "reduce_scatter_single_coalesced", outputs, inputs, options);
    }

    WorkPointer alltoall(Tensors &outputs, Tensors &inputs,
                         const c10d::AllToAllOptions &options) override
    {
        Range range("tutti:all_to_all", inputs);
        return start(range, OpType::ALLTOALL, "alltoall", outputs, inputs, options);
    }

    WorkPointer alltoall_base(at::Tensor &output, at::Tensor &input,
                              std::vector<int64_t> &output_rows, std::vector<int64_t> &input_rows,
                              const c10d::AllToAllOptions &options) override
    {
        Range range("tutti:all_to_all", input);
        return start(range, OpType::ALLTOALL_BASE, "all_to_all_single", output, input, output_rows,
                     input_rows, options);
    }

    WorkPointer barrier(const c10d::BarrierOptions &options) override
    {
        Range range("tutti:barrier", {});
        if (may_be_direct(options) && direct_.barrier(options.timeout))
            return done(OpType::BARRIER);
        return start(range, OpType::BARRIER, "barrier", options);
    }

    void monitoredBarrier(const c10d::BarrierOptions &options, bool waits_for_all) override
    {
        py::gil_scoped_acquire gil;
        py::object timeout = py::none(); // the group's
        if (options.timeout >= std::chrono::milliseconds(0)) timeout = py::cast(options.timeout);
        group_.call("monitored_barrier", timeout, waits_for_all);
    }

    // ------------------------------------------------------------------------- point to point

    WorkPointer send(Tensors &tensors, int peer, int tag) override
    {
        Range range("tutti:send", tensors);
        return start(range, OpType::SEND, "send", tensors, peer, tag);
    }

    WorkPointer recv(Tensors &tensors, int peer, int tag) override
    {
        Range range("tutti:recv", tensors);
        return start(range, OpType::RECV, "recv", tensors, peer, tag);
    }

    WorkPointer recvAnysource(Tensors &tensors, int tag) override
    {
        Range range("tutti:recv_anysource", tensors);
        return start(range, OpType::RECVANYSOURCE, "recv_anysource", tensors, tag);
    }

    // ----------------------------------------------------------------------- the group itself

    void startCoalescing() override
    {
        pass_on("_start_coalescing");
        is_coalescing_ = true;
    }

    WorkPointer endCoalescing() override
    {
        is_coalescing_ = false;
        Range range("tutti:coalesced", {});
        return start(range, OpType::COALESCED, "_end_coalescing");
    }

    bool supportsSplitting() const override
    {
        return true;
    }

    // The group's own store has a place for groups that are split off.
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &,
                                            const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<Options> &options) override
    {
        py::gil_scoped_acquire gil;
        py::object made = group_.call("split_group", ranks, options->timeout);
        if (made.is_none()) return nullptr;
        int rank = made.attr("rank")().cast<int>();
        return c10::make_intrusive<Backend>(made, rank, static_cast<int>(ranks.size()), library_);
    }

    const std::string getBackendName() const override
    {
        return "tutti";
    }

    c10::intrusive_ptr<Options> getBackendOptions() override
    {
        auto timeout = group_.call_as<std::chrono::milliseconds>("get_timeout");
        return c10::make_intrusive<Options>(getBackendName(), timeout);
    }

    void setTimeout(std::chrono::milliseconds timeout) override
    {
        pass_on("set_timeout", timeout);
    }
    void abort() override
    {
        pass_on("abort");
    }
    void shutdown() override
    {
        pass_on("shutdown");
    }

    // TORCH_DISTRIBUTED_DEBUG=DETAIL compares how far ranks are. All count from zero.
    void setSequenceNumberForGroup() override
    {
    }
    uint64_t getSequenceNumberForGroup() override
    {
        return direct_.call_count() + group_.call_as<uint64_t>("_get_sequence_number_for_group");
    }

    // The caller has the GIL.
    py::object group() const
    {
        return group_.get();
    }

  private:
    template <typename Options> bool may_be_direct(const Options &options) const
    {
        return !options.asyncOp && !is_coalescing_;
    }

    // A call of the group that gives a Work.
    template <typename... Arguments>
    WorkPointer start(Range &range, OpType type, const char *method,
                      const Arguments &...arguments) const
    {
        py::gil_scoped_acquire gil;
        auto work = c10::make_intrusive<Work>(group_.call(method, arguments...), type);
        range.end_with(*work);
        return work;
    }

    template <typename... Arguments>
    void pass_on(const char *method, const Arguments &...arguments) const
    {
        py::gil_scoped_acquire gil;
        group_.call(method, arguments...);
    }

    static WorkPointer done(OpType type)
    {
        return c10::make_intrusive<Done>(type);
    }

    // Only the root gives something to scatter.
    static at::ArrayRef<at::Tensor> first_of(const Lists &lists)
    {
        if (lists.empty()) return {};
        return lists.front();
    }

    const std::string library_;
    Held group_;
    Direct direct_;
    bool is_coalescing_ = false;
};

} // namespace

PYBIND11_MODULE(_backend, module)
{
    py::module_::import("torch.distributed"); // has the classes that these are made from
    NotCompiled::init();
    py::class_<Work, c10d::Work, c10::intrusive_ptr<Work>>(module, "Work")
        .def("exception", &Work::python_exception);
    py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
        .def(py::init([](const py::object &group, int rank, int size, const std::string &library) {
            return c10::make_intrusive<Backend>(group, rank, size, library);
        }))
        .def_property_readonly("group", &Backend::group, "The tutti_torch._group.TuttiGroup.");
}
