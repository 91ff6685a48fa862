#!/usr/bin/env bash
# Install robustcf into a virtual environment and compile its kernels: the steps of the image, also for bare machines.
# usage: deploy/install.sh SOURCES VENV        (SOURCES is this repository; PYTHON and PIP_* variables are respected)
set -euo pipefail
sources=$(cd "$1" && pwd)
venv=$2

"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-cache-dir -c "$sources/constraints.txt" "$sources[all]" "ray[default]"

# The kernels are compiled once, here. Numba stores them beside the code, so every container starts with them.
# NUMBA_CPU_NAME=generic in the environment keeps them usable on every machine of the same architecture.
"$venv/bin/python" "$sources/deploy/compile_kernels.py"

"$venv/bin/robustcf" --version
