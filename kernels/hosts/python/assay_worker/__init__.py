"""Runs Python kernels (NumPy, PyTorch, Triton, JAX) for `assay`.

From the command line:  assay check mdn --candidate python:my_kernels:mdn
From pytest:            assay_worker.check("mdn", mdn, model="bf16", budget="30s")
"""

from .pytest_check import check

__all__ = ["check"]
__version__ = "0.1.0"
