"""Read into an array and write from one, without a copy in between."""

import byway
import numpy

with byway.open("ram:64M") as device:
    buffer = device.buffer(1 << 16)
    samples = numpy.frombuffer(buffer, dtype="<f8")  # the buffer's memory itself
    samples[:] = numpy.sin(numpy.arange(len(samples)))
    device.nvm.write(0, buffer)
    samples[:] = 0
    device.nvm.read_into(0, buffer)
    print(f"{len(samples)} samples, mean {samples.mean():.6f}")

    array = numpy.empty((64, 64), dtype="<f4")  # memory that numpy has
    device.nvm.read_into(0, array)
