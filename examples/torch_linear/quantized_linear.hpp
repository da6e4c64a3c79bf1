// ufp4 - ufp4_linear: torch::nn::Linear whose forward and backward run under a training recipe.
// SPDX-License-Identifier: Apache-2.0
/// One header to copy: it needs libtorch and ufp4.
///
/// | y, dx, dw | linear_forward, linear_backward_input, linear_backward_weight at (step, layer), bit for bit   |
/// | db        | torch's sum of dY over tokens, in float                                                     |
/// | types     | float, bfloat16, half; x and weight may differ. y and dx have x's type, dw has weight's; y is |
/// |           | rounded once, after the bias                                                                |
/// | x         | any number of dimensions from 1 on, any strides, no tokens at all                             |
/// | threads   | torch's (at::set_num_threads); their number changes no bit of y, dx and dw                      |
/// | skipped   | dgrad where x needs no gradient, wgrad where weight needs none                                |
/// | rejected  | other devices, types and layouts, shapes that do not fit, create_graph:                       |
/// |           | std::invalid_argument with one message                                                        |
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <ufp4/ufp4.hpp>
#include <variant>
#include <vector>

template <>
struct ufp4::matrix_element<c10::BFloat16> : ufp4::matrix_element<ufp4::bf16> {};
template <>
struct ufp4::matrix_element<c10::Half> : ufp4::matrix_element<ufp4::fp16> {};

namespace torch_linear {

using torch::Tensor;
using ufp4::recipe::bound_recipe, ufp4::recipe::training_recipe;

using ufp4::recipe::named_recipe, ufp4::recipe::named_recipes;

namespace detail {

template <class... Words>
void expects(bool condition, const Words&... words) {
  if (!condition) throw std::invalid_argument(c10::str("ufp4_linear: ", words...));
}

/// std::invalid_argument for tensors that the operations cannot read by address: other devices, layouts and types.
inline void check_tensor(const char* name, const Tensor& t) {
  expects(t.defined(), name, " is an undefined tensor");
  expects(t.layout() == torch::kStrided, name, " has the layout ", t.layout(), ", not Strided");
  expects(t.device().is_cpu(), name, " is on ", t.device(), "; this layer computes on the CPU only");
  const auto type = t.scalar_type();
  expects(type == torch::kFloat || type == torch::kBFloat16 || type == torch::kHalf, name, " has elements of type ",
          c10::toString(type), ", not Float, BFloat16 or Half");
}

inline void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_tensor("x", x);
  check_tensor("weight", weight);
  if (bias.defined()) check_tensor("bias", bias);
  expects(weight.dim() == 2, "weight has ", weight.dim(), " dimensions, not 2");
  expects(x.dim() >= 1, "x has no dimensions; its last one is to be in_features");
  expects(x.size(-1) == weight.size(1), "x's last dimension is ", x.size(-1), ", but weight's in_features are ",
          weight.size(1));
  expects(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "bias has the shape ",
          bias.defined() ? bias.sizes() : c10::IntArrayRef{}, ", but weight's out_features are ", weight.size(0));
}

/// x as tokens x features, without a copy where possible. resolve_neg: the memory of a lazily negated tensor has the
/// opposite signs.
inline Tensor by_token(const Tensor& x) {
  std::int64_t tokens = 1;
  for (std::int64_t i = 0; i + 1 < x.dim(); ++i) tokens *= x.size(i);
  return x.resolve_neg().reshape({tokens, x.size(-1)});
}

template <class T>
ufp4::matrix_view<T> view_as(const Tensor& x) {
  return {x.data_ptr<T>(), static_cast<std::size_t>(x.size(0)), static_cast<std::size_t>(x.size(1)),
          static_cast<std::ptrdiff_t>(x.stride(0)), static_cast<std::ptrdiff_t>(x.stride(1))};
}
using any_view = std::variant<ufp4::matrix_view<float>, ufp4::matrix_view<c10::BFloat16>, ufp4::matrix_view<c10::Half>>;
inline any_view view_of(const Tensor& x) {
  if (x.scalar_type() == torch::kFloat) return view_as<float>(x);
  if (x.scalar_type() == torch::kBFloat16) return view_as<c10::BFloat16>(x);
  return view_as<c10::Half>(x);
}

/// torch's intra-op threads as the library's executor: inside one of torch's own parallel loops, the caller's thread.
struct torch_threads {
  void operator()(std::size_t count, ufp4::cpu::task_ref task) const {
    at::parallel_for(0, static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) task(static_cast<std::size_t>(i));
    });
  }
};
inline ufp4::cpu::context context() {
  static const torch_threads threads;
  ufp4::cpu::context on;
  on.threads = at::get_num_threads();
  on.executor = threads;
  return on;
}

/// A tensor for `features` results per token. Not a view: autograd forbids in-place changes of views that a function
/// returns, which a ReLU after the layer may make.
inline Tensor empty_like_tokens(const Tensor& x, std::int64_t features, torch::ScalarType type) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = features;
  return torch::empty(shape, x.options().dtype(type));
}

/// y is rounded once: with a bias the sum is computed in float first.
inline Tensor forward(const bound_recipe& now, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor rows = by_token(x), w = weight.resolve_neg();
  Tensor y = empty_like_tokens(x, w.size(0), bias.defined() ? torch::kFloat : x.scalar_type());
  std::visit([&](auto a, auto b, auto c) { ufp4::recipe::linear_forward(now, a, b, c, {}, context()); }, view_of(rows),
             view_of(w), view_of(by_token(y)));
  if (bias.defined()) y.add_(bias.to(torch::kFloat));
  return y.to(x.scalar_type());
}

inline Tensor backward_input(const bound_recipe& now, const Tensor& dy, const Tensor& weight) {
  const Tensor rows = by_token(dy), w = weight.resolve_neg();
  Tensor dx = empty_like_tokens(dy, w.size(1), dy.scalar_type());
  std::visit([&](auto a, auto b, auto c) { ufp4::recipe::linear_backward_input(now, a, b, c, {}, context()); },
             view_of(rows), view_of(w), view_of(by_token(dx)));
  return dx;
}

inline Tensor backward_weight(const bound_recipe& now, const Tensor& dy, const Tensor& x, torch::ScalarType type) {
  const Tensor rows = by_token(dy), inputs = by_token(x);
  Tensor dw = torch::empty({rows.size(1), inputs.size(1)}, rows.options().dtype(type));
  std::visit([&](auto a, auto b, auto c) { ufp4::recipe::linear_backward_weight(now, a, b, c, {}, context()); },
             view_of(rows), view_of(inputs), view_of(dw));
  return dw;
}

/// What backward needs besides tensors.
struct call : torch::CustomClassHolder {
  bound_recipe now;
  torch::ScalarType weight_type, bias_type;
  bool has_bias;
  call(const bound_recipe& r, const Tensor& weight, const Tensor& bias)
      : now(r),
        weight_type(weight.scalar_type()),
        bias_type(bias.defined() ? bias.scalar_type() : torch::kFloat),
        has_bias(bias.defined()) {}
};

class linear_function : public torch::autograd::Function<linear_function> {
 public:
  /// biases: one or none. An undefined tensor cannot be an argument.
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const bound_recipe& now, at::TensorList biases) {
    const Tensor bias = biases.empty() ? Tensor() : biases[0];
    Tensor y = detail::forward(now, x, weight, bias);
    // Each GEMM of the backward pass reads one of the two; a tensor that neither reads is not saved.
    ctx->save_for_backward({weight.requires_grad() ? x : Tensor(), x.requires_grad() ? weight : Tensor()});
    ctx->saved_data["call"] = c10::IValue::make_capsule(c10::make_intrusive<call>(now, weight, bias));
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    expects(!torch::GradMode::is_enabled(),
            "backward: create_graph = true is not supported: quantization has no derivative");
    const auto held = ctx->saved_data.at("call").toCapsule();
    const auto& of = static_cast<const call&>(*held);
    const auto saved = ctx->get_saved_variables();
    const Tensor &dy = grads[0], &x = saved[0], &weight = saved[1];
    check_tensor("the gradient of y", dy);
    Tensor dx, dw;
    if (ctx->needs_input_grad(0)) dx = backward_input(of.now, dy, weight);
    if (ctx->needs_input_grad(1)) dw = backward_weight(of.now, dy, x, of.weight_type);
    if (!of.has_bias) return {dx, dw, Tensor()};
    Tensor db;
    if (ctx->needs_input_grad(2)) db = by_token(dy).sum(0, false, torch::kFloat).to(of.bias_type);
    return {dx, dw, Tensor(), db};
  }
};

}  // namespace detail

/// The recipe of a name in named_recipes.
inline training_recipe recipe_named(std::string_view name, std::uint64_t seed) {
  std::string known;
  for (const named_recipe& r : named_recipes) {
    if (name == r.name) return r.make(seed);
    known += (known.empty() ? "" : ", ") + std::string(r.name);
  }
  throw std::invalid_argument("recipe_named: '" + std::string(name) + "' is none of " + known);
}

/// y = x W^T + b with the gradients of the recipe's dgrad and wgrad; bias may be undefined.
inline Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const bound_recipe& now) {
  detail::check_shapes(x, weight, bias);
  return detail::linear_function::apply(x, weight, now, bias.defined() ? at::TensorList(bias) : at::TensorList());
}

struct ufp4_linear_options {
  ufp4_linear_options(std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}
  ufp4_linear_options(const torch::nn::LinearOptions& o) : ufp4_linear_options(o.in_features(), o.out_features()) {
    bias_ = o.bias();
  }
  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(training_recipe, recipe) = ufp4::recipe::ufp4_recipe(1);
  /// Below 65536. Signs and random bits depend on it, so the layers of a model need different numbers (use_recipe).
  TORCH_ARG(std::uint32_t, layer) = 0;
};

/// A replacement of torch::nn::Linear: the same parameters, names and initial values, from the same random generator.
///
/// A forward pass that autograd records increments the layer's step; its backward pass uses the random bits of the same
/// step. A forward pass that is not recorded (no_grad, nothing requires a gradient) uses the random bits of the next
/// recorded one and does not increment: evaluation changes no bit of a training run. train() and eval() have no effect.
/// Several threads may call forward at once only if it is not recorded.
class ufp4_linearImpl : public torch::nn::Cloneable<ufp4_linearImpl> {
 public:
  ufp4_linearImpl(std::int64_t in_features, std::int64_t out_features)
      : ufp4_linearImpl(ufp4_linear_options(in_features, out_features)) {}
  explicit ufp4_linearImpl(const ufp4_linear_options& o) : options(o) {
    reset();  // virtual: calls this class's own
  }

  void reset() override {
    detail::expects(options.in_features() > 0, "in_features is ", options.in_features(), ", not above 0");
    detail::expects(options.out_features() > 0, "out_features is ", options.out_features(), ", not above 0");
    weight = register_parameter("weight", torch::empty({options.out_features(), options.in_features()}));
    bias = options.bias() ? register_parameter("bias", torch::empty(options.out_features()))
                          : register_parameter("bias", {}, /*requires_grad=*/false);
    reset_parameters();
  }
  /// torch::nn::Linear's: uniform within 1 / sqrt(in_features).
  void reset_parameters() {
    torch::nn::init::kaiming_uniform_(weight, std::sqrt(5.0));
    const double bound = 1 / std::sqrt(static_cast<double>(options.in_features()));
    if (bias.defined()) torch::nn::init::uniform_(bias, -bound, bound);
  }

  Tensor forward(const Tensor& x) {
    Tensor y = quantized_linear(x, weight, bias, options.recipe().at(step_, options.layer()));
    if (y.requires_grad()) ++step_;
    return y;
  }

  /// The step of the next recorded forward pass. torch::save does not write it: a run that continues from a checkpoint
  /// must set it.
  std::uint64_t step() const { return step_; }
  void set_step(std::uint64_t step) { step_ = step; }

  void pretty_print(std::ostream& out) const override {
    out << "ufp4_linear(in_features=" << options.in_features() << ", out_features=" << options.out_features()
        << ", bias=" << (options.bias() ? "true" : "false") << ", layer=" << options.layer() << ")";
  }

  ufp4_linear_options options;
  Tensor weight, bias;

 private:
  std::uint64_t step_ = 0;
};
TORCH_MODULE(ufp4_linear);

/// f(layer) for each ufp4_linear of a model, itself included, in the order of modules().
template <class F>
void for_each_layer(torch::nn::Module& model, const F& f) {
  if (auto* layer = dynamic_cast<ufp4_linearImpl*>(&model)) f(*layer);
  for (const auto& child : model.modules(/*include_self=*/false))
    if (auto* layer = dynamic_cast<ufp4_linearImpl*>(child.get())) f(*layer);
}

/// Gives all layers of a model the recipe, the numbers 0, 1, 2, ... and step 0: the same model, recipe and inputs then
/// give the same bits. Returns the number of layers.
inline std::uint32_t use_recipe(torch::nn::Module& model, const training_recipe& recipe) {
  std::uint32_t count = 0;
  for_each_layer(model, [&](ufp4_linearImpl& layer) {
    layer.options.recipe(recipe).layer(count++);
    layer.set_step(0);
  });
  return count;
}

/// For continuing from a checkpoint: the number of recorded forward passes of each layer so far.
inline void set_step(torch::nn::Module& model, std::uint64_t step) {
  for_each_layer(model, [&](ufp4_linearImpl& layer) { layer.set_step(step); });
}

}  // namespace torch_linear
