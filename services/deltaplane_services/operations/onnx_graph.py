"""A graph of ONNX operators as it is made: each node and each constant gets a name of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Graph"]


class Graph:
    """The nodes, inputs and constants of a graph. ``taken``: names that no node or constant may get."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []
        self._taken = set(taken)

    def input(self, name: str, kind: Any, shape: Sequence[str | int]) -> str:
        """The name of a new input; it is changed if it is taken."""
        name = self._free(name)
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """The name of a new constant tensor."""
        name = self._free(f"constant_{len(self.constants)}")
        self.constants.append(numpy_helper.from_array(np.array(value, dtype=kind), name))
        return name

    def cast(self, value: str, kind: Any) -> str:
        """The name of ``value`` cast to another tensor type."""
        return self("Cast", value, to_type=kind)

    def __call__(
        self, operator: str, *inputs: str, to: str = "", domain: str = "", to_type: Any = None, **attributes: Any
    ) -> str:
        """The name of the output of a new node; ``to`` gives the output that name."""
        output = to or self._free(f"value_{len(self.nodes)}")
        attributes |= {} if to_type is None else {"to": to_type}
        self.nodes.append(helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += " of column"
        self._taken.add(name)
        return name

    def all_of(self, values: str, size: int) -> str:
        """The name of bool[n, 1]: whether all of ``values`` bool[n, size] are true."""
        counted = self("ReduceSum", self.cast(values, TensorProto.INT64), self.constant([1], np.int64), keepdims=1)
        return self("Equal", counted, self.constant(size, np.int64))

    def cosines_and_sines(self, coefficients: Sequence[float], turns: str) -> str:
        """The name of float32[n, 2m]: cosines, then sines of ``turns`` float64[n, m], in steps of 2**-20."""
        turns = self("Sub", turns, self("Round", turns))
        quarter = self.constant(0.25)
        cosines = self("Sub", quarter, self("Abs", turns))
        size = self("Sub", quarter, self("Abs", cosines))
        sines = self("Where", self("Less", turns, self.constant(0.0)), self("Neg", size), size)
        angles = self.cast(self("Concat", cosines, sines, axis=1), TensorProto.FLOAT)
        return self("Round", self("Mul", angles, self.polynomial(coefficients, self("Mul", angles, angles))))

    def polynomial(self, coefficients: Sequence[float], x: str) -> str:
        """The name of a polynomial's value at ``x``, in float32, by Horner's rule, the highest power first."""
        first, *others = (self.constant(coefficient, np.float32) for coefficient in coefficients)
        value = self("Mul", x, first)
        for coefficient in others[:-1]:
            value = self("Mul", self("Add", value, coefficient), x)
        return self("Add", value, others[-1])
