# PyTorch uses libuv by default, and Debian builds it without. No setting turns that off in all parts of torchrun.
set -euo pipefail
cd /usr/lib/python3/dist-packages/torch/distributed
sed --in-place 's/"USE_LIBUV", "1"/"USE_LIBUV", "0"/' rendezvous.py elastic/utils/distributed.py
sed --in-place 's/is_master=False,/& use_libuv=False,/' rendezvous.py
sed --in-place 's/multi_tenant=True,/& use_libuv=False,/' elastic/rendezvous/*.py
rm -r /usr/lib/libtorch-test
