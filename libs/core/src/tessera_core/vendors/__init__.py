"""The makes of hardware, each one module beside this file that offers `VENDOR`."""
