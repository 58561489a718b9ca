// range.h - a range of PyTorch's profiler, as "tutti:all_reduce": from the call to the end of its
// operation.
//
// With record_shapes it has what this rank gives as its inputs: the tensors, and how many bytes
// they are. Without a profiler it is nothing.
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <utility>
#include <vector>

class Range {
  public:
    Range(const char *title, at::ArrayRef<at::Tensor> given)
    {
        auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
        if (!callbacks.has_value()) return;
        function_ = std::make_shared<at::RecordFunction>(std::move(*callbacks));
        function_->_setAsync(); // it may end in another thread
        if (!function_->needsInputs()) {
            function_->before(title);
            return;
        }
        std::vector<c10::IValue> inputs(given.begin(), given.end());
        int64_t size_bytes = 0;
        for (const at::Tensor &tensor : given) size_bytes += tensor.numel() * tensor.element_size();
        inputs.emplace_back(size_bytes);
        function_->before(title, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
    }

    // Without this it ends with its scope: after an error, and after what blocks.
    void end_with(c10d::Work &work)
    {
        if (function_ == nullptr) return;
        work.getFuture()->addCallback(
            [function = std::move(function_)](c10::ivalue::Future &) { function->end(); });
    }

  private:
    std::shared_ptr<at::RecordFunction> function_;
};
