"""Two (or more) ranks, one per GPU, all-reduce with PyTorch and NCCL: are the sums right, how fast, over which transport.

Usage: python3 torch_allreduce.py [ranks]. Prints one line per size and the transport that NCCL says it chose
(NCCL_DEBUG=INFO). Exits 0 when every element of every sum was right.
"""
import os
import re
import socket
import subprocess
import sys
import time


def rank_main(rank, world, port):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    wrong = 0
    for count in (1, 1 << 10, 1 << 20, 1 << 26):
        base = torch.arange(count, device="cuda", dtype=torch.float32) % 1021
        for _ in range(3):
            data = base * (rank + 1)
            dist.all_reduce(data)
            wrong += int((data != base * (world * (world + 1) // 2)).sum())
        data = base.clone()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(10):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - begin) / 10
        if rank == 0:
            bus = count * 4 * 2 * (world - 1) / world / seconds / 1e9
            print(f"all_reduce {count * 4} bytes: {seconds * 1e6:.0f} us, {bus:.1f} GB/s bus", flush=True)
    dist.destroy_process_group()
    if wrong:
        print(f"rank {rank}: {wrong} wrong elements", flush=True)
    sys.exit(1 if wrong else 0)


def main():
    world = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, NCCL_DEBUG="INFO")
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(r), str(world), str(port)], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(world)]
    texts = []
    for r in ranks:
        try:
            texts.append(r.communicate(timeout=180)[0])
        except subprocess.TimeoutExpired:
            for other in ranks:
                other.kill()
            print("timed out after 180 s")
            return 1
    for line in texts[0].splitlines():
        if line.startswith("all_reduce"):
            print(line)
    via = sorted(set(re.findall(r"via ([A-Z0-9]+)", "\n".join(texts))))
    print("transport:", ", ".join(via) if via else "NCCL named none")
    bad = [t for t, r in zip(texts, ranks) if r.returncode != 0]
    for t in bad:
        print(t[-3000:])
    print("sums wrong or a rank failed" if bad else "sums right")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--rank":
        rank_main(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    sys.exit(main())
