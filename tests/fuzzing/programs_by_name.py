"""Small programs that the fuzzer's tests share, each named for what it does."""

from __future__ import annotations

from cgverify.fuzzing.program import Call, Input, Program, Step

VECTOR = Input(shape=(3,), values="integers")

PROGRAMS: dict[str, Program] = {
    "double": Program(inputs=(VECTOR,), steps=(Step("add", (0, 0)), Step("neg", (1,))), outputs=(-1,)),
    "write": Program(inputs=(VECTOR, VECTOR), steps=(Step("add_", (0, 1)), Step("mul", (0, 1))), outputs=(-1, 0)),
    "write_through_view": Program(
        inputs=(Input(shape=(2, 3), values="integers"),),
        steps=(Step("select", (0,)), Step("zero_", (1,)), Step("neg", (0,))),
        outputs=(-1, 1),
    ),
    "item": Program(inputs=(VECTOR,), steps=(Step("item", (0,)), Step("mul", (0, 2))), outputs=(-1, 2, None, -1)),
    "dropout": Program(
        inputs=(Input(shape=(4, 8), values="integers"),),
        steps=(Step("neg", (0,)), Step("dropout", (1,))),
        outputs=(-1,),
    ),
    "matmul": Program(inputs=(Input(shape=(2, 3)),), steps=(Step("gram", (0,)), Step("softmax", (2,))), outputs=(-1,)),
    "trained": Program(
        inputs=(VECTOR, Input(shape=(3,), requires_grad=True)),
        steps=(Step("mul", (0, 1)), Step("tanh", (2,)), Step("sum", (3,))),
        outputs=(-1, 3),
    ),
    "module": Program(
        inputs=(VECTOR, Input(shape=(3,), role="parameter", requires_grad=True), Input(shape=(3,), role="buffer")),
        steps=(Step("mul", (0, 1)), Step("add", (3, 2)), Step("sum", (4,))),
        outputs=(-1,),
    ),
    "held": Program(
        inputs=(VECTOR,),
        steps=(Step("exp", (0,)), Step("neg", (1,))),
        outputs=(-1,),
        history=(Call((1,)), Call((2,)), Call((3,))),
    ),
}
