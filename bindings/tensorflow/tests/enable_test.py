"""What enable() refuses, each with a text that says what to do, and that it can be tried again."""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"):
    os.environ.pop(name, None)

import tensorflow as tf
import tutti_tensorflow


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


def config(workers, index, kind="worker", **others):
    return json.dumps({"cluster": {"worker": workers, **others}, "task": {"type": kind, "index": index}})


def refused(text, given=None, **arguments):
    if given is not None:
        os.environ["TF_CONFIG"] = given
    try:
        tutti_tensorflow.enable(**arguments)
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"this should be refused: {text}")
    finally:
        os.environ.pop("TF_CONFIG", None)
    assert not tutti_tensorflow.is_enabled()


refused("start it by tutti-run")
refused("TF_CONFIG is not as TensorFlow wants it", "{")
refused("TF_CONFIG is not as TensorFlow wants it", "[1]")
refused("TF_CONFIG is not as TensorFlow wants it", "{}")
refused("no worker has the task's index", config(["a:1"], 1))
refused("no worker has the task's index", config([7], 0))
refused("takes part in no collective", config(["a:1"], 0, "evaluator"))
refused("is not HOST:PORT", config(["a"], 0))
refused("give enable(port=...) another", config(["a:65000"], 0))
refused("give enable(port=...) another", config(["a:1"], 0), port=70000)

refused("is none", config(["a:1"], 0), timeout=0)

# Ranks of the launcher that are not those of TF_CONFIG.
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
refused("unset TF_CONFIG", config(["a:1", "b:1"], 1))
for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    del os.environ[name]

# A worker alone, by TF_CONFIG; then everything works, and the environment is as before.
os.environ["TF_CONFIG"] = config(["127.0.0.1:29400"], 0)
tutti_tensorflow.enable()
tutti_tensorflow.enable()
assert "RANK" not in os.environ and tutti_tensorflow.is_enabled()
found = tf.raw_ops.CollectiveReduceV2(
    input=[1.0, 2.0], group_size=1, group_key=1, instance_key=1, ordering_token=[], merge_op="Add", final_op="Id"
)
assert found.numpy().tolist() == [1.0, 2.0], found
with tf.device("CPU:1"):  # the second device of this process, in a group with the first
    try:
        tf.raw_ops.CollectiveReduceV2(
            input=[1.0], group_size=2, group_key=2, instance_key=1, ordering_token=[], merge_op="Add", final_op="Id"
        )
    except tf.errors.InvalidArgumentError as error:
        assert "a process can have one device in a group" in str(error), error
    else:
        raise AssertionError("two devices of a process should be refused")
tutti_tensorflow.disable()
tutti_tensorflow.disable()
os.environ["TUTTI_TIMEOUT"] = "2.5m"
tutti_tensorflow.enable()
assert tutti_tensorflow._default_seconds() == 150
tutti_tensorflow.disable()
print("good")
