"""Eight floats at a time: the vector operations that the kernels are written in.

Numba leaves vectorisation to the compiler's guess. The kernels need more than a guess: accumulators that stay in
registers, fused multiply-adds in an order that never changes, so that one event and a mini-batch of them give the
same bits on every machine. `F8` (eight float32) and `I8` (eight int32) are values in compiled code; a machine without
vectors that wide gets narrower ones from LLVM. Arrays are C-contiguous and indexed as if flat.

With NUMBA_DISABLE_JIT=1 the same names work on NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8

_config: Any = numba.config


if _config.DISABLE_JIT:

    def splat(x: Any) -> Any:
        return np.full(LANES, x, np.float32)

    def splat_int(x: Any) -> Any:
        return np.full(LANES, x, np.int32)

    def splat_at(array: Any, index: Any) -> Any:
        return splat(array.reshape(-1)[index])

    def load(array: Any, start: Any) -> Any:
        return array.reshape(-1)[start : start + LANES].copy()

    def store_int(array: Any, start: Any, value: Any) -> None:
        array.reshape(-1)[start : start + LANES] = value

    def exchange(array: Any, low: Any, high: Any) -> None:
        flat = array.reshape(-1)
        a, b = flat[low : low + LANES].copy(), flat[high : high + LANES].copy()
        flat[low : low + LANES], flat[high : high + LANES] = np.minimum(a, b), np.maximum(a, b)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return (a.astype(np.float64) * b + c).astype(np.float32)

    def sub(a: Any, b: Any) -> Any:
        return a - b

    def mul(a: Any, b: Any) -> Any:
        return a * b

    def keep_greater(value: Any, best: Any) -> Any:
        return np.where(value > best, value, best)

    def index_of_greater(value: Any, best: Any, index: Any, best_index: Any) -> Any:
        return np.where(value > best, index, best_index).astype(np.int32)

    def index_of_greatest(value: Any, index: Any) -> Any:
        return int((index + np.arange(LANES))[value == value.max()].min())

    def total(a: Any) -> Any:
        four = a[:4] + a[4:]
        two = four[:2] + four[2:]
        return two[0] + two[1]

else:  # pragma: no cover  (runs inside the compiler)

    class _F8(types.Type):
        def __init__(self) -> None:
            super().__init__(name="F8")

    class _I8(types.Type):
        def __init__(self) -> None:
            super().__init__(name="I8")

    F8, I8 = _F8(), _I8()
    _I32 = ir.IntType(32)
    _VF, _VI = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
    _VD = ir.VectorType(ir.DoubleType(), LANES)

    @register_model(_F8)
    class _F8Model(models.PrimitiveModel):
        def __init__(self, manager: Any, fe_type: Any) -> None:
            super().__init__(manager, fe_type, _VF)

    @register_model(_I8)
    class _I8Model(models.PrimitiveModel):
        def __init__(self, manager: Any, fe_type: Any) -> None:
            super().__init__(manager, fe_type, _VI)

    def _broadcast(builder: Any, scalar: Any, vector: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(_VI, [0] * LANES))

    def _pointer(context: Any, builder: Any, signature: Any, args: Any, vector: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())

    @intrinsic
    def splat(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _broadcast(builder, args[0], _VF)

        return F8(types.float32), generate

    @intrinsic
    def splat_int(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _broadcast(builder, builder.trunc(args[0], _I32), _VI)

        return I8(types.int64), generate

    @intrinsic
    def splat_at(typing: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            return _broadcast(builder, builder.load(builder.gep(data, [args[1]])), _VF)

        return F8(array, types.int64), generate

    @intrinsic
    def load(typing: Any, array: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_pointer(context, builder, signature, args, _VF), align=4)

        return F8(array, types.int64), generate

    @intrinsic
    def store_int(typing: Any, array: Any, start: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[2], _pointer(context, builder, signature, args, _VI), align=4)
            return context.get_dummy_value()

        return types.void(array, types.int64, I8), generate

    @intrinsic
    def exchange(typing: Any, array: Any, low: Any, high: Any) -> Any:
        """Order eight pairs of float64, none of them NaN: the lesser of each to low, the greater to high."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            places = [_pointer(context, builder, signature, [args[0], at], _VD) for at in args[1:]]
            pair = [builder.load(place, align=8) for place in places]
            for place, name in zip(places, ("minnum", "maxnum"), strict=True):
                kind = ir.FunctionType(_VD, [_VD] * 2)
                function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v8f64")
                builder.store(builder.call(function, pair, fastmath=("nnan",)), place, align=8)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), generate

    @intrinsic
    def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(_VF, [_VF] * 3)
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fma.v8f32")
            return builder.call(function, args)

        return F8(F8, F8, F8), generate

    @intrinsic
    def sub(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fsub(args[0], args[1])

        return F8(F8, F8), generate

    @intrinsic
    def mul(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fmul(args[0], args[1])

        return F8(F8, F8), generate

    @intrinsic
    def keep_greater(typing: Any, value: Any, best: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

        return F8(F8, F8), generate

    @intrinsic
    def index_of_greater(typing: Any, value: Any, best: Any, index: Any, best_index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

        return I8(F8, F8, I8, I8), generate

    def _halves(builder: Any, value: Any, width: int) -> list[Any]:
        """The lower and the upper half of a vector of twice the width."""
        return [
            builder.shuffle_vector(
                value, value, ir.Constant(ir.VectorType(_I32, width), list(range(start, start + width)))
            )
            for start in (0, width)
        ]

    @intrinsic
    def index_of_greatest(typing: Any, value: Any, index: Any) -> Any:
        """The index of the greatest of eight values, each at its index plus its lane; the lowest of equal ones.

        No branch: which lane wins is anybody's guess, and a processor that guesses wrong waits longer than this takes.
        """

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value, index = args[0], builder.add(args[1], ir.Constant(_VI, list(range(LANES))))
            width = LANES // 2
            while width > 0:
                (low, high), (low_at, high_at) = _halves(builder, value, width), _halves(builder, index, width)
                tied = builder.and_(builder.fcmp_ordered("==", high, low), builder.icmp_signed("<", high_at, low_at))
                taken = builder.or_(builder.fcmp_ordered(">", high, low), tied)
                value, index = builder.select(taken, high, low), builder.select(taken, high_at, low_at)
                width //= 2
            return builder.sext(builder.extract_element(index, ir.Constant(_I32, 0)), ir.IntType(64))

        return types.int64(F8, I8), generate

    @intrinsic
    def total(typing: Any, a: Any) -> Any:
        """The sum of the eight, as a tree of fixed shape."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value, width = args[0], LANES // 2
            while width > 0:
                value = builder.fadd(*_halves(builder, value, width))
                width //= 2
            return builder.extract_element(value, ir.Constant(_I32, 0))

        return types.float32(F8), generate
