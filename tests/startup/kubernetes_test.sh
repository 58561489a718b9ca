#!/bin/bash
# kubernetes_test.sh - share/kubernetes/ddp.yaml: it is what Kubernetes takes, as far as kubernetes-validate of PyPI knows (if that is here;
# --long fetches it), its parts fit each other, and its containers' commands join and add up. There is no Kubernetes: pods are emulated hosts with
# a root of their own, in which the volumes lie where the manifest mounts them, and with the manifest's variables alone.
# Needs root, python3 with yaml and numpy.
# ctest: label=nosan label=once timeout=180 waits
here=$(realpath "${BASH_SOURCE[0]}")

# The process of a container: pod FOLDER INDEX, in namespaces of its own. FOLDER/pod.INDEX has its variables and its command.
if [[ ${1:-} == pod ]]; then
    set -euo pipefail
    cd "$2"
    mount -t tmpfs root root
    for entry in /*; do
        case $entry in
        /app | /run | /proc) ;;
        *)
            if [[ -L $entry ]]; then
                cp -P "$entry" root/
            elif [[ -d $entry ]]; then
                mkdir "root$entry"
                mount --rbind "$entry" "root$entry"
            fi
            ;;
        esac
    done
    mkdir root/proc root/run root/app
    mount -t proc proc root/proc
    mount --bind hosts root/etc/hosts
    cp train.py root/app/
    # As the kubelet lays out the volume of a secret.
    mount=$(cat mount)
    mkdir -p "root$mount/..1"
    install -m "$(cat mode)" secret "root$mount/..1/secret"
    ln -s ..1 "root$mount/..data"
    ln -s ..data/secret "root$mount/secret"
    mapfile -d '' -t command <"pod.$3"
    exec chroot root env -i "PATH=$PATH" "${command[@]}"
fi

# shellcheck source=tests/startup/launchers.sh
source "${TUTTI_ROOT:?}/tests/startup/launchers.sh"
manifest=$(realpath "${TUTTI_ROOT:?}/share/kubernetes/ddp.yaml")
# Whichever python3 has a package: that of PATH, or Debian's. In pods it is called python3.
python_with() {
    local candidate
    for candidate in python3 /usr/bin/python3; do
        if "$candidate" -c "import $1" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}
reader=$(python_with yaml) || skip "no python3 has yaml (python3-yaml)"
runner=$(python_with numpy) || skip "no python3 has numpy (python3-numpy)"
if [[ $runner == /usr/bin/python3 ]]; then PATH=/usr/bin:$PATH; fi

# ------------------------------------------------------------------------------------------------- the schema

validate=$(command -v kubernetes-validate)
if [[ -z $validate && ${TUTTI_LONG:-} == 1 ]]; then
    if python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --retries 1 --timeout 20 kubernetes-validate; then
        validate=$work/venv/bin/kubernetes-validate
    fi >"$work/pip" 2>&1
fi
if [[ -z $validate ]]; then
    echo "skipped: kubernetes-validate is not here (PyPI)"
else
    said=$("$validate" --strict "$manifest" 2>&1) || fail "kubernetes-validate: $said"
    sed 's/kind: Job/kind: Job\nsped: {}/' "$manifest" >"$work/wrong.yaml"
    if "$validate" --strict "$work/wrong.yaml" >/dev/null 2>&1; then fail "kubernetes-validate takes a manifest with a wrong field"; fi
fi

# ------------------------------------------------------------------------------------------- its parts, and the pods

cat >"$work/read.py" <<'END'
"""read.py MANIFEST FOLDER: what does not fit; otherwise FOLDER gets what pods need."""
import sys
import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    made = {one["kind"]: one for one in yaml.safe_load_all(file)}
service, job = made["Service"], made["Job"]
name, spec = job["metadata"]["name"], job["spec"]
pod = spec["template"]["spec"]
rank, = pod["containers"]
values = {one["name"]: one.get("value") for one in rank["env"]}
volumes = {one["name"]: one["secret"] for one in pod["volumes"]}
mount, = rank["volumeMounts"]
secret = volumes[mount["name"]]
ANNOTATION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
for fits, what in (
        (service["spec"]["clusterIP"] == "None", "the service is not headless"),
        (service["spec"]["publishNotReadyAddresses"] is True, "pods have no names before they are ready"),
        (service["spec"]["selector"] == {"job-name": name}, "the service does not select the job's pods"),
        (pod["subdomain"] == service["metadata"]["name"], "the pods are not in the service"),
        (spec["completionMode"] == "Indexed", "the job is not indexed"),
        (spec["completions"] == spec["parallelism"] == int(values["WORLD_SIZE"]), "the numbers of pods differ"),
        (spec["backoffLimit"] == 0 and pod["restartPolicy"] == "Never", "a rank would be started again alone"),
        (values["MASTER_ADDR"] == "%s-0.%s" % (name, pod["subdomain"]), "MASTER_ADDR is not the first pod"),
        (values["TUTTI_SECRET_FILE"] == mount["mountPath"] + "/secret", "TUTTI_SECRET_FILE is not in the volume"),
        (all(isinstance(one["value"], str) for one in rank["env"] if "value" in one), "a value is no text"),
        (all(one["valueFrom"] == {"fieldRef": {"fieldPath": ANNOTATION}} for one in rank["env"] if "value" not in one), "an unknown field"),
        (rank["command"] == ["python3", "/app/train.py"], "this test has another program")):
    if not fits:
        sys.exit(what)
with open(sys.argv[2] + "/mount", "w") as file:
    file.write(mount["mountPath"])
with open(sys.argv[2] + "/mode", "w") as file:
    file.write("%o" % secret["defaultMode"])
with open(sys.argv[2] + "/hosts", "w") as file:
    print("127.0.0.1 localhost", file=file)
    for index in range(spec["completions"]):
        print("10.77.0.%d %s-%d.%s" % (index + 1, name, index, pod["subdomain"]), file=file)
for index in range(spec["completions"]):
    env = ["%s=%s" % (one["name"], one.get("value", index)) for one in rank["env"]]
    with open("%s/pod.%d" % (sys.argv[2], index), "w") as file:
        file.write("\0".join(env + ["JOB_COMPLETION_INDEX=%d" % index] + rank["command"]) + "\0")
END
read_manifest() {
    mkdir -p "$2" && "$reader" "$work/read.py" "$1" "$2" 2>&1
}
said=$(read_manifest "$manifest" "$work/pods") || { fail "$said"; exit 1; }
for edit in 's/completions: 2/completions: 3/' 's/ddp-0.ddp/ddp-1.ddp/' 's/subdomain: ddp/subdomain: dpd/' 's/clusterIP: None/clusterIP: ""/'; do
    sed "$edit" "$manifest" >"$work/wrong.yaml"
    if read_manifest "$work/wrong.yaml" "$work/wrong" >/dev/null; then fail "this test takes a manifest with $edit"; fi
done

# --------------------------------------------------------------------------------------------------- the commands

cluster_up
cd "$work/pods" || exit 1
mkdir root
(umask 077 && head -c 32 /dev/urandom >secret)
cat >train.py <<END
import os, sys
sys.path.insert(0, "$(realpath "$TUTTI_ROOT")/bindings/python/src")
sys.dont_write_bytecode = True
os.environ["TUTTI_LIBRARY"] = "$(realpath "$bin/../lib/libtutti.so")"
import numpy, tutti
with tutti.init() as comm:
    mine = numpy.array([comm.rank + 1, 10.0], numpy.float32)
    sums = comm.allreduce(mine)
    print("rank", comm.rank, "of", comm.size, "got", sums[0], sums[1], flush=True)
END

# Both pods of the job; what they say is in pod.N.out.
run_pods() {
    local index pids=() code=0
    for index in 0 1; do
        "$cluster" exec $index timeout -k 5 60 unshare --mount --pid --fork --kill-child bash "$here" pod "$PWD" $index \
            >"pod.$index.out" 2>&1 </dev/null &
        pids+=($!)
    done
    for index in 0 1; do wait "${pids[index]}" || code=1; done
    return $code
}
show() { cat pod.0.out pod.1.out; }

run_pods || fail "the commands of the pods do not end well: $(show)"
for index in 0 1; do
    grep -qx "rank $index of 2 got 3.0 20.0" pod.$index.out || fail "rank $index of 2 should get 3 and 20: $(show)"
done
if grep -q TUTTI_SECRET pod.*.out; then fail "the secret is not used: $(show)"; fi
# A secret that others can read is refused, so the test sees the manifest's file.
echo 444 >mode
if run_pods || ! grep -q 'it is open to other users' pod.0.out; then fail "a secret for all to read should be refused: $(show)"; fi
cluster_expect_quiet
exit $failed
