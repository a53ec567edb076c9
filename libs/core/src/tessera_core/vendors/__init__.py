"""The makes of hardware, each one module next to this file that offers `VENDOR`."""
