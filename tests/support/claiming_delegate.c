/* A TFLite delegate for the tests: it takes the operators that its option `ops` names, and really runs them.
 *
 * `ops=CONV_2D` or `ops=TANH+ADD`, of CONV_2D, FULLY_CONNECTED, ADD and TANH, in float32, with shapes known
 * beforehand. Plain loops, slower than any kernel of the CPU, as an accelerator at the end of a slow bus is.
 *
 * No runtime's wheel has the headers, so what is used of them is declared here, field by field: the same in
 * TensorFlow v2.14.0 (tensorflow/lite/core/c/common.h, c_api_types.h, builtin_op_data.h, and
 * delegates/external/external_delegate_interface.h) and in google-ai-edge/LiteRT f674577 (tflite/...). That the
 * newer TfLiteRegistration ends with one more field does no harm: it is passed by value, and an older runtime
 * copies what it knows.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum { kTfLiteOk = 0, kTfLiteError = 1 } TfLiteStatus;
typedef struct { int size; int data[]; } TfLiteIntArray;
typedef struct { float scale; int32_t zero_point; } TfLiteQuantizationParams;
typedef struct { int type; void *params; } TfLiteQuantization;

struct TfLiteContext;
struct TfLiteDelegate;
struct TfLiteNode;

typedef struct TfLiteTensor {
  int type;
  union { float *f; void *data; } data;
  TfLiteIntArray *dims;
  TfLiteQuantizationParams params;
  int allocation_type;
  size_t bytes;
  const void *allocation;
  const char *name;
  struct TfLiteDelegate *delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  TfLiteQuantization quantization;
  void *sparsity;
  const TfLiteIntArray *dims_signature;
} TfLiteTensor;

typedef struct TfLiteNode {
  TfLiteIntArray *inputs, *outputs, *intermediates, *temporaries;
  void *user_data;
  void *builtin_data;
  const void *custom_initial_data;
  int custom_initial_data_size;
  struct TfLiteDelegate *delegate;
  bool might_have_side_effect;
} TfLiteNode;

typedef struct TfLiteRegistration {
  void *(*init)(struct TfLiteContext *, const char *buffer, size_t length);
  void (*free)(struct TfLiteContext *, void *buffer);
  TfLiteStatus (*prepare)(struct TfLiteContext *, TfLiteNode *);
  TfLiteStatus (*invoke)(struct TfLiteContext *, TfLiteNode *);
  const char *(*profiling_string)(const struct TfLiteContext *, const TfLiteNode *);
  int32_t builtin_code;
  const char *custom_name;
  int version;
  void *registration_external;
  void *(*async_kernel)(struct TfLiteContext *, TfLiteNode *);
  uint64_t inplace_operator;
} TfLiteRegistration;

typedef struct TfLiteContext { /* as far as it is used */
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(struct TfLiteContext *, TfLiteIntArray **);
  TfLiteTensor *tensors;
  void *impl_;
  TfLiteStatus (*ResizeTensor)(struct TfLiteContext *, TfLiteTensor *, TfLiteIntArray *);
  void (*ReportError)(struct TfLiteContext *, const char *, ...);
  TfLiteStatus (*AddTensors)(struct TfLiteContext *, int, int *);
  TfLiteStatus (*GetNodeAndRegistration)(struct TfLiteContext *, int, TfLiteNode **, TfLiteRegistration **);
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(struct TfLiteContext *, TfLiteRegistration,
                                                        const TfLiteIntArray *, struct TfLiteDelegate *);
} TfLiteContext;

typedef struct TfLiteDelegate {
  void *data_;
  TfLiteStatus (*Prepare)(TfLiteContext *, struct TfLiteDelegate *);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteContext *, struct TfLiteDelegate *, int, TfLiteTensor *);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteContext *, struct TfLiteDelegate *, int, TfLiteTensor *);
  void (*FreeBufferHandle)(TfLiteContext *, struct TfLiteDelegate *, int *);
  int64_t flags;
  void *opaque_delegate_builder;
} TfLiteDelegate;

typedef struct {
  TfLiteDelegate *delegate;
  TfLiteIntArray *nodes_to_replace, *input_tensors, *output_tensors;
} TfLiteDelegateParams;

enum { kTfLiteFloat32 = 1, kTfLitePaddingSame = 1, kTfLiteActNone = 0, kTfLiteActRelu = 1, kTfLiteActRelu6 = 3 };

typedef struct {
  int padding, stride_width, stride_height, activation, dilation_width_factor, dilation_height_factor;
} TfLiteConvParams;
typedef struct { int activation; } ActivationParams; /* how TfLiteAddParams and TfLiteFullyConnectedParams begin */

enum { ADD = 0, CONV_2D = 3, FULLY_CONNECTED = 9, TANH = 28 }; /* tensorflow/lite/schema/schema.fbs */
static const struct { const char *name; int code; } KNOWN[] = {
  {"ADD", ADD}, {"CONV_2D", CONV_2D}, {"FULLY_CONNECTED", FULLY_CONNECTED}, {"TANH", TANH},
};
#define KNOWN_COUNT (sizeof KNOWN / sizeof KNOWN[0])

typedef struct { TfLiteDelegate delegate; bool takes[64]; } Claiming;

/* A partition: its operators in run order. A tensor within it has no place in the runtime's arena but one here. */
typedef struct { int code, inputs[3], output; void *params; } Operator;
typedef struct { int count, tensors; Operator *operators; float **own; } Partition;

static int dim(const TfLiteTensor *tensor, int place) { return tensor->dims->data[place]; }

static size_t count_of(const TfLiteTensor *tensor) { return tensor->bytes / sizeof(float); }

static float *values(TfLiteContext *context, const Partition *partition, int tensor) {
  if (tensor < 0) return NULL;
  return partition->own[tensor] ? partition->own[tensor] : context->tensors[tensor].data.f;
}

static float activated(float value, int activation) {
  if (activation != kTfLiteActNone && value < 0) value = 0;
  return activation == kTfLiteActRelu6 && value > 6 ? 6 : value;
}

static void convolve(const TfLiteConvParams *params, const TfLiteTensor *in, const TfLiteTensor *weights,
                     const TfLiteTensor *out, const float *x, const float *w, const float *bias, float *y) {
  int height = dim(in, 1), width = dim(in, 2), depth = dim(in, 3), rows = dim(weights, 1), columns = dim(weights, 2);
  int up = 0, left = 0;
  if (params->padding == kTfLitePaddingSame) {
    int over = (dim(out, 1) - 1) * params->stride_height + (rows - 1) * params->dilation_height_factor + 1 - height;
    int past = (dim(out, 2) - 1) * params->stride_width + (columns - 1) * params->dilation_width_factor + 1 - width;
    up = over > 0 ? over / 2 : 0;
    left = past > 0 ? past / 2 : 0;
  }
  for (int n = 0; n < dim(out, 0); n++)
    for (int i = 0; i < dim(out, 1); i++)
      for (int j = 0; j < dim(out, 2); j++)
        for (int k = 0; k < dim(out, 3); k++) {
          float sum = bias ? bias[k] : 0;
          for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
              int row = i * params->stride_height - up + r * params->dilation_height_factor;
              int column = j * params->stride_width - left + c * params->dilation_width_factor;
              if (row < 0 || row >= height || column < 0 || column >= width) continue;
              const float *at = x + ((size_t)(n * height + row) * width + column) * depth;
              const float *by = w + ((size_t)(k * rows + r) * columns + c) * depth;
              for (int d = 0; d < depth; d++) sum += at[d] * by[d];
            }
          *y++ = activated(sum, params->activation);
        }
}

static void connect(int activation, const TfLiteTensor *weights, size_t outputs, const float *x, const float *w,
                    const float *bias, float *y) {
  size_t units = dim(weights, 0), depth = dim(weights, 1);
  for (size_t i = 0; i < outputs; i++) {
    float sum = bias ? bias[i % units] : 0;
    for (size_t d = 0; d < depth; d++) sum += x[i / units * depth + d] * w[i % units * depth + d];
    y[i] = activated(sum, activation);
  }
}

static TfLiteStatus claiming_invoke(TfLiteContext *context, TfLiteNode *node) {
  const Partition *partition = node->user_data;
  for (int i = 0; i < partition->count; i++) {
    const Operator *op = &partition->operators[i];
    const TfLiteTensor *out = &context->tensors[op->output];
    const float *x = values(context, partition, op->inputs[0]), *w = values(context, partition, op->inputs[1]);
    const float *bias = values(context, partition, op->inputs[2]);
    float *y = values(context, partition, op->output);
    switch (op->code) {
      case ADD:
        for (size_t k = 0; k < count_of(out); k++) y[k] = activated(x[k] + w[k], ((ActivationParams *)op->params)->activation);
        break;
      case TANH:
        for (size_t k = 0; k < count_of(out); k++) y[k] = tanhf(x[k]);
        break;
      case CONV_2D:
        convolve(op->params, &context->tensors[op->inputs[0]], &context->tensors[op->inputs[1]], out, x, w, bias, y);
        break;
      case FULLY_CONNECTED:
        connect(((ActivationParams *)op->params)->activation, &context->tensors[op->inputs[1]], count_of(out), x, w, bias, y);
        break;
      default:
        return kTfLiteError;
    }
  }
  return kTfLiteOk;
}

static bool holds(const TfLiteIntArray *array, int value) {
  for (int i = 0; i < array->size; i++)
    if (array->data[i] == value) return true;
  return false;
}

static void *claiming_init(TfLiteContext *context, const char *buffer, size_t length) {
  const TfLiteDelegateParams *params = (const TfLiteDelegateParams *)buffer;
  Partition *partition = calloc(1, sizeof *partition);
  (void)length;
  partition->count = params->nodes_to_replace->size;
  partition->tensors = (int)context->tensors_size;
  partition->operators = calloc(partition->count, sizeof *partition->operators);
  partition->own = calloc(context->tensors_size, sizeof *partition->own);
  for (int i = 0; i < partition->count; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    Operator *op = &partition->operators[i];
    context->GetNodeAndRegistration(context, params->nodes_to_replace->data[i], &node, &registration);
    op->code = registration->builtin_code;
    op->params = node->builtin_data; /* the replaced node keeps it for as long as the interpreter lives */
    for (int k = 0; k < 3; k++) op->inputs[k] = k < node->inputs->size ? node->inputs->data[k] : -1;
    op->output = node->outputs->data[0];
    if (!holds(params->output_tensors, op->output)) partition->own[op->output] = malloc(context->tensors[op->output].bytes);
  }
  return partition;
}

static void claiming_free(TfLiteContext *context, void *buffer) {
  Partition *partition = buffer;
  (void)context;
  for (int i = 0; i < partition->tensors; i++) free(partition->own[i]);
  free(partition->own);
  free(partition->operators);
  free(partition);
}

static bool can_run(const TfLiteContext *context, const TfLiteNode *node, int code) {
  for (int i = 0; i < node->inputs->size; i++)
    if (node->inputs->data[i] >= 0 && context->tensors[node->inputs->data[i]].type != kTfLiteFloat32) return false;
  if (context->tensors[node->outputs->data[0]].type != kTfLiteFloat32) return false;
  return code != ADD || context->tensors[node->inputs->data[0]].bytes == context->tensors[node->inputs->data[1]].bytes;
}

static TfLiteStatus claiming_prepare(TfLiteContext *context, TfLiteDelegate *delegate) {
  const Claiming *claiming = delegate->data_;
  TfLiteRegistration kernel = {.init = claiming_init, .free = claiming_free, .invoke = claiming_invoke,
                               .custom_name = "ClaimingDelegate", .version = 1};
  TfLiteIntArray *plan, *claimed;
  TfLiteStatus status = context->GetExecutionPlan(context, &plan);
  if (status != kTfLiteOk) return status;
  claimed = calloc(1, sizeof *claimed + plan->size * sizeof(int));
  for (int i = 0; i < plan->size; i++) {
    TfLiteNode *node;
    TfLiteRegistration *registration;
    int code;
    if (context->GetNodeAndRegistration(context, plan->data[i], &node, &registration) != kTfLiteOk) continue;
    code = registration->builtin_code;
    if (code >= 0 && code < 64 && claiming->takes[code] && can_run(context, node, code))
      claimed->data[claimed->size++] = plan->data[i];
  }
  status = context->ReplaceNodeSubsetsWithDelegateKernels(context, kernel, claimed, delegate);
  free(claimed);
  return status;
}

static bool read_ops(Claiming *claiming, const char *names) {
  while (*names) {
    size_t length = strcspn(names, "+"), i = 0;
    while (i < KNOWN_COUNT && !(strlen(KNOWN[i].name) == length && !strncmp(names, KNOWN[i].name, length))) i++;
    if (i == KNOWN_COUNT) return false;
    claiming->takes[KNOWN[i].code] = true;
    names += length + (names[length] == '+');
  }
  return true;
}

__attribute__((visibility("default"))) TfLiteDelegate *tflite_plugin_create_delegate(
    const char *const *keys, const char *const *option_values, size_t count, void (*report_error)(const char *)) {
  Claiming *claiming = calloc(1, sizeof *claiming);
  claiming->delegate.data_ = claiming;
  claiming->delegate.Prepare = claiming_prepare;
  for (size_t i = 0; i < count; i++)
    if (strcmp(keys[i], "ops") || !read_ops(claiming, option_values[i])) {
      if (report_error) report_error("ops=NAME+NAME of ADD, CONV_2D, FULLY_CONNECTED, TANH is the only option");
      free(claiming);
      return NULL;
    }
  return &claiming->delegate;
}

__attribute__((visibility("default"))) void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate) {
  if (delegate) free(delegate->data_);
}
