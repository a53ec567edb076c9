"""A small training loop under whatever limits are in force; prints images per second and the peak.

Usage: train.py eager|graphs SECONDS
"""

import sys
import time

import torch
from torch import nn


def main():
    """Train, then ask for more than there is."""
    mode, seconds = sys.argv[1], float(sys.argv[2])
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(128, 256, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 10),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(128, 3, 64, 64, device="cuda")
    labels = torch.randint(0, 10, (128,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    run = step
    if mode == "graphs":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    start, steps = time.time(), 0
    while time.time() - start < seconds:
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        steps += 5
    took = time.time() - start
    free, total = torch.cuda.mem_get_info()
    print(f"images_per_second {steps * 128 / took:.0f}")
    print(f"peak_mib {torch.cuda.max_memory_reserved() >> 20}")
    print(f"total_mib {total >> 20} free_mib {free >> 20}")
    try:
        torch.empty(total + (1 << 20), dtype=torch.uint8, device="cuda")
        print("over_the_limit NOT REFUSED")
    except torch.cuda.OutOfMemoryError:
        print("over_the_limit refused")


if __name__ == "__main__":
    main()
