"""Rules that give the shape of every tensor of an ONNX model from those of the inputs, one for each operator."""
