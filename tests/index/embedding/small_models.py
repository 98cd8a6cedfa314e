"""Sentence models small enough for a test: a table of a few words, as a network of ONNX."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper, save_model
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "stop",
    "end",
    "halt",
    "a",
    "run",
    "job",
    "cake",
    "word",
)
#: One row for each word, as a network with rows of numbers would have them.
TABLE = numpy.array(
    [[0, 0, 0, 0], [9, 9, 9, 9], [0, 0, 0, 1], [0, 0, 0, 0],
     [4, 1, 0, 0], [4, 2, 0, 0], [4, 0, 1, 0], [0, 0, 0, 0.5],
     [0, 4, 0, 0], [0, 4, 1, 0], [0, 0, 4, 0], [1, 1, 1, 1]],
    dtype="<f4",
)  # fmt: skip


def save_small_model(
    folder: Path,
    *,
    table: numpy.ndarray = TABLE,
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
    output: str = "last_hidden_state",
    whole_numbers: int = TensorProto.INT64,
    network: str = "model.onnx",
    idle: int = 0,
    **files: object,
) -> Path:
    """Save a model of WORDS; its network looks up the row of each token.

    ``output`` sentence_embedding: it adds the rows up itself. ``idle``: it multiplies two matrices
    of so many rows for each text, in vain. ``files`` are what JSON files have, by their names with
    ``__`` in place of a slash, and without their ending.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_network(folder / network, table, inputs, output, whole_numbers, idle)
    save_tokenizer(folder / "tokenizer.json")
    for name, content in files.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    return folder


def save_network(
    file: Path,
    table: numpy.ndarray,
    inputs: Sequence[str],
    output: str,
    whole_numbers: int,
    idle: int = 0,
) -> None:
    """Save the network alone."""
    width = table.shape[1]
    shape = ["rows", "tokens"]
    given = [helper.make_tensor_value_info(name, whole_numbers, shape) for name in inputs]
    nodes = [helper.make_node("Gather", ["table", inputs[0]], ["looked_up"])]
    if idle:
        nodes = _idle_nodes(inputs[0])
    if output == "sentence_embedding":
        nodes.append(helper.make_node("ReduceSum", ["looked_up", "axes"], [output], keepdims=0))
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["rows", width])
    else:
        nodes.append(helper.make_node("Identity", ["looked_up"], [output]))
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, [*shape, width])
    _save_graph(file, nodes, given, made, table, idle)


def save_cross_encoder(
    folder: Path, worth: Mapping[str, float], *, idle: int = 0, width: int = 1, **config: object
) -> Path:
    """Save a model that adds up what the words of the second text of a pair are worth.

    ``idle``: as of ``save_small_model``. ``width``: numbers that it gives for a pair.
    ``config``: what its tokenizer_config.json has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = numpy.array([[worth.get(word, 0.0)] * width for word in WORDS], dtype="<f4")
    inputs, shape = ("input_ids", "token_type_ids"), ["rows", "tokens"]
    given = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in inputs]
    node = helper.make_node
    found = (
        _idle_nodes(inputs[0]) if idle else [node("Gather", ["table", inputs[0]], ["looked_up"])]
    )
    nodes = [
        *found,
        node("Cast", [inputs[1]], ["types"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["types", "last"], ["second"]),
        node("Mul", ["looked_up", "second"], ["counted"]),
        node("ReduceSum", ["counted", "axes"], ["logits"], keepdims=0),
    ]
    made = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", width])
    _save_graph(folder / "model.onnx", nodes, given, made, table, idle)
    save_tokenizer(folder / "tokenizer.json", pair="[CLS] $A [SEP] $B:1 [SEP]:1")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def _save_graph(
    file: Path,
    nodes: Sequence[NodeProto],
    given: Sequence[ValueInfoProto],
    made: ValueInfoProto,
    table: numpy.ndarray,
    idle: int,
) -> None:
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(numpy.array([1]), "axes"),
        numpy_helper.from_array(numpy.array([-1]), "last"),
        numpy_helper.from_array(numpy.array([idle, idle]), "square"),
        numpy_helper.from_array(numpy.zeros(1, dtype="<f4"), "nothing"),
    ]
    graph = helper.make_graph(nodes, "small", given, [made], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    file.parent.mkdir(exist_ok=True)
    save_model(model, file)


def _idle_nodes(tokens: str) -> list[NodeProto]:
    """Return nodes that look up the rows of tokens, and take their time."""
    node = helper.make_node
    return [
        node("Gather", ["table", tokens], ["rows"]),
        node("Cast", [tokens], ["numbers"], to=TensorProto.FLOAT),
        node("ReduceSum", ["numbers"], ["sum"], keepdims=0),
        node("Expand", ["sum", "square"], ["matrix"]),
        node("MatMul", ["matrix", "matrix"], ["product"]),
        node("ReduceSum", ["product"], ["total"], keepdims=0),
        node("Mul", ["total", "nothing"], ["zero"]),
        node("Add", ["rows", "zero"], ["looked_up"]),
    ]


def save_tokenizer(file: Path, pair: str | None = None) -> None:
    """Save a tokenizer of WORDS, which puts marks around a text as BERT's do."""
    pieces = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    pieces.normalizer = normalizers.Lowercase()
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    pieces.enable_truncation(4)  # of another use of it: it does not count
    pieces.enable_padding(length=9)  # likewise
    pieces.save(str(file))
