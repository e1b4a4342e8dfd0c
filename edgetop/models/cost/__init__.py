"""The work of each operator by its definition: floating-point operations, bytes moved, memory.

Conventions, which the figures of different tools differ in:

* A multiply-accumulate (MAC) is 2 FLOPs; both are given. Papers on networks that say FLOPs
  often mean MACs.
* Integer arithmetic of quantised operators counts as FLOPs too: the work is the same.
* Other arithmetic counts as in TensorFlow's profiler
  (tensorflow/python/profiler/internal/flops_registry.py): one per element and function, softmax 5,
  a pool its window. Normalisations count as in fvcore (fvcore/nn/jit_handles.py): batch
  normalisation 2 per element, others 5. What only moves or selects elements counts none.
* Bytes are those of every tensor read or written once, as if no cache held more than an operator.
* What is not known is None, and totals say of how many operators.
"""
