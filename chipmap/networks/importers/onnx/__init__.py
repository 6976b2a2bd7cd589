"""Reading ONNX models: what stands behind :mod:`chipmap.networks.importers.onnx_model`."""
