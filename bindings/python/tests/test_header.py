"""What Python believes about tutti.h is what a compiler reads there."""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tutti
from tutti import _header, _sparse
from tutti._library import library

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "include" / "tutti" / "tutti.h"
ENCODE_HEADER = ROOT / "include" / "tutti" / "encode.h"
SPARSE_HEADER = ROOT / "include" / "tutti" / "sparse.h"
SERVER_HEADER = ROOT / "include" / "tutti" / "server.h"
EXCLUDE_HEADER = ROOT / "include" / "tutti" / "exclude.h"
FURTHER_HEADERS = [
    ENCODE_HEADER,
    SPARSE_HEADER,
    SERVER_HEADER,
    ROOT / "include" / "tutti" / "plan.h",
]  # they include the other one
ELASTIC_HEADER = ROOT / "include" / "tutti" / "train" / "elastic.h"
TRAIN = ROOT / "include" / "tutti" / "train"
TRAIN_HEADERS = [TRAIN / "compress.h", TRAIN / "local.h", TRAIN / "adapt.h"]  # each includes what it needs

STRUCTS = {
    "tutti_id": _header.Id,
    "tutti_store": _header.Store,
    "tutti_comm_options": _header.CommOptions,
    "tutti_grow_options": _header.GrowOptions,
    "tutti_axis": _header.Axis,
    "tutti_footprint": _header.Footprint,
    "tutti_failure": _header.Failure,
    "tutti_comm_counters": _header.CommCounters,
    "tutti_trace_entry": _header.TraceEntry,
    "tutti_call_options": _header.CallOptions,
    "tutti_op_options": _header.OpOptions,
    "tutti_tensor": _header.Tensor,
    "tutti_list": _header.TensorList,
    "tutti_message": _header.Message,
}
TRAIN_STRUCTS = {
    "tutti_compress_tensor": _header.CompressTensor,
    "tutti_compressor_options": _header.CompressorOptions,
    "tutti_compressor_result": _header.CompressorResult,
    "tutti_compressor_counters": _header.CompressorCounters,
    "tutti_checkpoint_tensor": _header.CheckpointTensor,
    "tutti_local_tensor": _header.LocalTensor,
    "tutti_local_options": _header.LocalOptions,
    "tutti_local_result": _header.LocalResult,
    "tutti_local_counters": _header.LocalCounters,
    "tutti_noise": _header.Noise,
    "tutti_adapt_settings": _header.AdaptSettings,
    "tutti_adapt_sample": _header.AdaptSample,
    "tutti_adapt_rank": _header.AdaptRank,
    "tutti_adapt_view": _header.AdaptView,
    "tutti_adapt_policy": _header.AdaptPolicy,
    "tutti_adapt_options": _header.AdaptOptions,
    "tutti_adapt_decision": _header.AdaptDecision,
    "tutti_batch_by_noise": _header.BatchByNoise,
    "tutti_bounded_when_slow": _header.BoundedWhenSlow,
    "tutti_elastic_array": _header.ElasticArray,
    "tutti_elastic_options": _header.ElasticOptions,
    "tutti_elastic_part": _header.ElasticPart,
    "tutti_elastic_step": _header.ElasticStep,
    "tutti_elastic_counters": _header.ElasticCounters,
    "tutti_elastic_costs": _header.ElasticCosts,
}
SPARSE_STRUCTS = {
    "tutti_sparse_rows": _header.SparseRows,
    "tutti_sparse_table": _header.SparseTable,
    "tutti_sparse_options": _header.SparseOptions,
    "tutti_sparse_counters": _header.SparseCounters,
}
SERVER_STRUCTS = {
    "tutti_server_table": _header.ServerTable,
    "tutti_server_options": _header.ServerOptions,
    "tutti_server_change": _header.ServerChange,
    "tutti_server_part": _header.ServerPart,
    "tutti_server_call_options": _header.ServerCallOptions,
    "tutti_server_step": _header.ServerStep,
    "tutti_server_counters": _header.ServerCounters,
}
EXCLUDE_STRUCTS = {
    "tutti_exclude_options": _header.ExcludeOptions,
    "tutti_exclude_policy": _header.ExcludePolicy,
}
SERVER_ENUMS = {
    "tutti_server_optimizer": _header.ServerOptimizer,
    "tutti_server_initial": _header.ServerInitial,
    "tutti_server_mode": _header.ServerMode,
}


def expected_values():
    for status in _header.Status:
        yield f"TUTTI_{status.name}", int(status)
    for dtype in _header.Dtype:
        yield f"TUTTI_{dtype.name.upper()}", int(dtype)
    for encoding in _header.Encoding:
        yield f"TUTTI_ENCODING_{encoding.name}", int(encoding)
    for cause in _header.Cause:
        yield f"TUTTI_CAUSE_{cause.name}", int(cause)
    for name, value in _header.OPERATIONS.items():
        yield f"(size_t)TUTTI_{name.upper()}", value
    for name in ("ANY_RANK", "ANY_TAG", "NO_COLOR"):
        yield f"TUTTI_{name}", getattr(_header, name)
    for way, number in _sparse._WAYS.items():
        yield f"TUTTI_SPARSE_{way.upper()}", number
    for numbers in SERVER_ENUMS.values():
        for number in numbers:
            yield f"TUTTI_SERVER_{number.name}", int(number)
    for name, struct in {**STRUCTS, **TRAIN_STRUCTS, **SPARSE_STRUCTS, **SERVER_STRUCTS, **EXCLUDE_STRUCTS}.items():
        yield f"sizeof(struct {name})", ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            yield f"offsetof(struct {name}, {field})", getattr(struct, field).offset
            size = getattr(struct, field).size
            yield f"sizeof(((struct {name} *)0)->{field})", size


def test_constants_and_structs_are_those_of_the_header(tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler here")
    wanted = list(expected_values())
    lines = "".join(f'    printf("%lld\\n", (long long)({text}));\n' for text, _ in wanted)
    source = tmp_path / "values.c"
    source.write_text(
        f'#include <stdio.h>\n#include "tutti/exclude.h"\n#include "tutti/server.h"\n#include "tutti/sparse.h"\n#include "tutti/train/adapt.h"\n#include "tutti/train/compress.h"\n#include "tutti/train/local.h"\n#include "tutti/train/elastic.h"\nint main(void)\n{{\n{lines}    return 0;\n}}\n'
    )
    program = tmp_path / "values"
    subprocess.run([compiler, "-I", ROOT / "include", source, "-o", program], check=True)
    printed = subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.split()
    assert [(text, int(value)) for (text, _), value in zip(wanted, printed)] == wanted


def test_every_struct_and_constant_of_the_header_is_here():
    text = HEADER.read_text() + ENCODE_HEADER.read_text()
    structs = set(re.findall(r"^struct (\w+) \{", text, re.M))
    assert structs == set(STRUCTS)
    structs = set(re.findall(r"^struct (\w+) \{", SPARSE_HEADER.read_text(), re.M))
    assert structs == set(SPARSE_STRUCTS)
    server = SERVER_HEADER.read_text()
    assert set(re.findall(r"^struct (\w+) \{", server, re.M)) == set(SERVER_STRUCTS)
    for enum, known in SERVER_ENUMS.items():
        body = re.search(rf"enum {enum} \{{(.*?)\n\}};", server, re.S).group(1)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        assert re.findall(r"TUTTI_SERVER_(\w+)", body) == [member.name for member in known]
    text += EXCLUDE_HEADER.read_text()
    for enum, known in (
        ("tutti_status", _header.Status),
        ("tutti_dtype", _header.Dtype),
        ("tutti_encoding", _header.Encoding),
        ("tutti_integrity", _header.Integrity),
        ("tutti_encryption", _header.Encryption),
        ("tutti_cause", _header.Cause),
    ):
        body = re.search(rf"enum {enum} \{{(.*?)\n\}};", text, re.S).group(1)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        names = re.findall(r"TUTTI_(?:INTEGRITY_|ENCRYPTION_|ENCODING_|CAUSE_)?(\w+)", body)
        assert [name.lower() for name in names] == [member.name.lower() for member in known]


def functions_of(*headers):
    """The number of arguments of each function."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler here")
    text = ""
    for header in headers:
        command = [compiler, "-E", "-P", "-I", ROOT / "include", header]
        text += subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()
    declared = {}
    for name, arguments in re.findall(r"\btutti_(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text):
        declared[name] = 0 if arguments.strip() == "void" else arguments.count(",") + 1
    for function_type in ("combine", "server_function"):
        declared.pop(function_type, None)
    return declared


def test_every_function_of_the_headers_is_here():
    known = {name: len(arguments) for name, (_, arguments) in _header.FUNCTIONS.items()}
    declared = functions_of(*FURTHER_HEADERS, EXCLUDE_HEADER)
    for only_in_c in ("comm_muster", "comm_signs", "exclude_judge", "exclude_policy"):
        declared.pop(only_in_c, None)
    assert declared == known


def test_every_function_of_blocks_for_training_is_here():
    known = {name: len(arguments) for name, (_, arguments) in _header.TRAIN_FUNCTIONS.items()}
    declared = {}
    for header in TRAIN_HEADERS:
        declared.update(functions_of(header))
    declared.pop("adapt_decide")  # a function type
    of_blocks = ("compressor_", "local_", "adapt_", "noise_")
    assert {name for name in declared if name.startswith(of_blocks)} <= known.keys()
    assert {name: declared[name] for name in known} == known


def test_every_function_of_elastic_loops_is_here():
    known = {name: len(arguments) for name, (_, arguments) in _header.ELASTIC_FUNCTIONS.items()}
    declared = functions_of(ELASTIC_HEADER)
    in_python = [name for name in declared if name.startswith("elastic_") and not name.startswith("elastic_shards_")]
    assert {name: declared[name] for name in in_python} == known


def test_versions_of_package_and_library_are_told():
    assert tutti.library_version() == tutti.__version__
    major, minor, patch = map(int, tutti.library_version().split("."))
    assert library.version() == major * 1000000 + minor * 1000 + patch


def test_options_of_a_later_package_fit_an_earlier_library():
    class Later(ctypes.Structure):
        _fields_ = _header.OpOptions._fields_ + [("added", ctypes.c_uint64)]

    options = Later(size_bytes=ctypes.sizeof(Later), factor=0.5)
    op = ctypes.c_void_p()
    assert library.op_create(ctypes.byref(options), ctypes.byref(op)) == _header.Status.OK
    assert library.op_free(op) == _header.Status.OK
    options.added = 1
    status = library.op_create(ctypes.byref(options), ctypes.byref(op))
    assert status == _header.Status.INVALID_OPTIONS
    assert tutti.library_version() in library.error_message().decode()
