"""Rules for the shapes in an ONNX model: one for each type of operator, from its inputs to its outputs."""
